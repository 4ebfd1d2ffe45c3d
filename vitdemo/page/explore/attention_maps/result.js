// One sentence for newcomers: the prediction, and the meaning of the bright patches.
import { formatProbability } from "../../components/shared.js";

function describePlace(trace, { source, layer }) {
  return source === "rollout"
    ? `layers ${trace.rollout.first} to ${layer}`
    : `layer ${layer} of ${trace.layers}`;
}

// `model` stands for the token that the classifier reads.
function describeBright(trace, selection, model) {
  const { source, head, token, isIncoming, isNorm } = selection;
  const place = describePlace(trace, selection);
  if (source === "similar") return `Orange patches have tokens similar to ${token.name} after ${place}.`;
  const reader = token === trace.tokens.answering ? model : token.name;
  const of = source === "head" || source === "norm-head" ? `head ${head} in ${place}` : place;
  if (isNorm) {
    return isIncoming
      ? `Bright patches receive most from ${reader} in ${of}.`
      : `Bright patches pass most to ${reader} in ${of}.`;
  }
  return isIncoming
    ? `Bright patches are those that attend most to ${reader} in ${of}.`
    : `Bright patches are those that ${reader} attends to most in ${of}.`;
}

export function describeResult(trace, selection) {
  const { prediction, run } = trace;
  if (!prediction) return describeBright(trace, selection, run);
  const start = `${run} predicts ${prediction.class}, ${formatProbability(prediction.shares.at(-1))}.`;
  return `${start} ${describeBright(trace, selection, "it")}`;
}
