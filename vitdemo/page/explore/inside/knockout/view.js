// The prediction before and after attention knock-out.
import { createDocument } from "../../../components/documents.js";
import * as store from "../../../store.js";
import { describePrediction } from "../shared.js";

const NO_LAYER = "No layer is blocked. Move the second slider to block all layers up to the chosen layer.";
const CAVEAT =
  "The model was not trained with blocked attention, so this mismatch may cause part of the change.";
const MAX_NAMES = 5; // maximum number of special tokens that are named, without the class token

function describeLayers({ layers: [first, last], depth }) {
  if (first === 1 && last === depth) return `all ${depth} layers`;
  return first === last ? `layer ${first}` : `layers ${first} to ${last}`;
}

// Why all special tokens are blocked, not only the class token.
function describeSpecialTokens(names) {
  const others = names.slice(1, 1 + MAX_NAMES).join(", ") + (names.length > 1 + MAX_NAMES ? ", …" : "");
  return `The model has ${names.length} special tokens: the class token, and ${others}. The attention of all special tokens to patches is blocked. Otherwise, the class token could receive information from patches through the other special tokens.`;
}

export function listBlocks(data) {
  if (data.problem) return [{ kind: "Notice", text: data.problem }];
  if (!data.layers.length) return [{ kind: "Text", text: NO_LAYER, told: true }];
  const { classes, before, now, special_tokens: names } = data;
  const isOne = names.length === 1;
  const subject = isOne ? "The class token cannot attend" : "No special token can attend";
  const remarks = isOne ? [CAVEAT] : [describeSpecialTokens(names), CAVEAT];
  return [
    { kind: "Text", text: describePrediction(data), told: true },
    {
      kind: "ProbabilityChange",
      title: `${subject} to patches in ${describeLayers(data)}`,
      classes,
      before,
      now,
      heads: ["before", "now"],
    },
    ...remarks.map((text) => ({ kind: "Text", text, quiet: true })),
  ];
}

store.define("knockout", {
  create(element) {
    element.classList.add("article");
    const draw = createDocument(element);
    return { render: (data) => draw(listBlocks(data)) };
  },
});
