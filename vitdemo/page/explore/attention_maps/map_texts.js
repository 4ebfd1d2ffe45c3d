// Texts and tables of attention maps. A `trace` is as in matrices.js, and a `selection` as in selection.js. `values` (N) are
// the weights of one token.
import { computeLine, getPatch } from "../../components/matrices.js";
import { findLargest, formatFileName, formatPercent, makeRange } from "../../components/shared.js";
import { drawTable } from "../../components/table.js";
import { markup } from "../../markup.js";
import { fill, MAP_FILE } from "../../texts.js";
import { getPatchValues } from "./selection.js";

const POINTED_RECEIVES = "Row {row}, column {column} receives {percent} from {token}. ";
const isNorm = (source) => source === "norm" || source === "norm-head";
const computeTotal = (map) => map.reduce((sum, value) => sum + value, 0);

// The settings of rollout that are not defaults, such as " (max of the heads, 10% discarded)".
function describeSettings({ fusion, discard, residual }) {
  const words = [
    ...(fusion === "mean" ? [] : [`${fusion} of the heads`]),
    ...(discard ? [`${Number((100 * discard).toPrecision(6))}% discarded`] : []),
    ...(residual ? [] : ["no residual"]),
  ];
  return words.length ? ` (${words.join(", ")})` : "";
}

export function describeMap(trace, { source, layer, head, isIncoming, token }) {
  const first = trace.rollout.first;
  const map = {
    head: "Layer {layer}, head {head}",
    mean: "Layer {layer}, mean of {heads} heads",
    norm: "Layer {layer}, norm-weighted attention of {heads} heads",
    "norm-head": "Layer {layer}, head {head}, norm-weighted attention",
    rollout: layer > first
      ? "Attention rollout of layers {first} to {layer}{settings}"
      : "Attention rollout of layer {layer}{settings}",
    similar: "After layer {layer}",
  }[source];
  const [outgoing, received] = isNorm(source)
    ? ["{map}: tokens that pass most to {token}", "{map}: tokens that receive most from {token}"]
    : ["{map}: attention of {token}", "{map}: attention to {token}"];
  const title = source === "similar"
    ? "{map}: patches whose tokens are similar to {token}"
    : isIncoming
    ? received
    : outgoing;
  return fill(title, {
    map: fill(map, { layer, head, heads: trace.heads, first, settings: describeSettings(trace.rollout) }),
    token: token.name,
  });
}

// The fraction of one token's attention that all patches together receive; 1 without special tokens.
export function computePatchShare(trace, { source, isIncoming }, values) {
  return source === "similar" || isIncoming || !trace.prefix.length
    ? 1
    : computeTotal(getPatchValues(trace, values));
}

// The patches with the highest values, and their fraction of the sum over all patches.
function findStrongest(map, few = 3) {
  const first = [...map.keys()].sort((a, b) => map[b] - map[a]).slice(0, few);
  return [first, computeShare(map, first)];
}
const computeShare = (map, chosen) => chosen.reduce((sum, i) => sum + map[i], 0) / computeTotal(map);

// A note if three patches have a third of the attention weights, because these patches may still pass on little.
export function describeFewPatches(trace, { source, layer, isIncoming, token }, values) {
  if (!["mean", "norm"].includes(source) || isIncoming || token !== trace.tokens.answering) return "";
  const weights = source === "mean" ? values : computeLine(trace, "mean", layer, 1, token, false);
  const map = weights && getPatchValues(trace, weights);
  if (!map || map.length < 60) return "";
  const [first, share] = findStrongest(map);
  if (share < 1 / 3) return "";
  if (source === "norm") {
    return `The three most attended patches receive ${
      formatPercent(share)
    } of the attention on patches, and have ${
      formatPercent(computeShare(getPatchValues(trace, values), first))
    } of the sum of norms.`;
  }
  return `The three most attended of ${map.length} patches receive ${
    formatPercent(share)
  } of the attention on patches. Choose norm-weighted attention under Settings to see how much these patches pass on.`;
}

function describeLargest(trace, map) {
  const best = map.indexOf(Math.max(...map));
  return `row ${Math.floor(best / trace.grid[1]) + 1}, column ${(best % trace.grid[1]) + 1}: ${
    formatPercent(findLargest(map))
  }`;
}

// The weight between the patch under the pointer (its number, or null) and the class token.
function describePointed(trace, { source, layer, head, isIncoming, pointed }) {
  if (pointed === null || source === "similar") return "";
  const { answering } = trace.tokens;
  const own = computeLine(trace, source, layer, head, answering, isIncoming);
  const [row, column] = getPatch(trace, pointed).code.split(",");
  if (!own) return `Row ${row}, column ${column}. `;
  const [received, sent] = isNorm(source)
    ? [POINTED_RECEIVES, "Row {row}, column {column} passes {percent} to {token}. "]
    : ["Row {row}, column {column} attends to {token} with weight {percent}. ", POINTED_RECEIVES];
  return fill(isIncoming ? received : sent, {
    row,
    column,
    percent: formatPercent(own[trace.prefix.length + pointed]),
    token: answering.name,
  });
}

export function describeValues(trace, selection, values) {
  const map = getPatchValues(trace, values);
  if (selection.source === "similar") {
    return "Cosine similarity of the tokens: orange is similar, and purple is opposite.";
  }
  const most = { pointed: describePointed(trace, selection), largest: describeLargest(trace, map) };
  if (selection.isIncoming) {
    return fill(
      isNorm(selection.source)
        ? "{pointed}Maximum: {largest} of the norms that this patch receives."
        : "{pointed}Maximum: {largest} of this patch's attention.",
      most,
    );
  }
  const maximum = fill(
    isNorm(selection.source)
      ? "{pointed}Maximum: {largest} of the sum of norms."
      : "{pointed}Maximum: {largest}.",
    most,
  );
  return [maximum, trace.prefix.length ? describeAllPatches(trace, selection, values) : ""].join(" ").trim();
}

// The buttons of the special tokens show the rest of the attention, so only a low sum is described.
function describeAllPatches(trace, selection, values) {
  const share = computePatchShare(trace, selection, values);
  if (isNorm(selection.source)) return `All patches together have ${formatPercent(share)}.`;
  const rest = trace.prefix.length > 1 ? "special tokens" : "the class token itself";
  return share < 0.2
    ? `All patches together receive only ${
      formatPercent(share)
    }. The rest goes to ${rest}, so interpret this map with care.`
    : "";
}

// Tables with captions: the numbers of the map, and the measurements of all heads.
export function drawMapTables(trace, selection, values) {
  const map = getPatchValues(trace, values);
  const columns = trace.grid[1];
  const formatValue = (
    value,
  ) => (selection.source === "similar" ? value.toFixed(3) : (100 * value).toFixed(2));
  const makeRow = (i) => Array.from(map.subarray(i * columns, (i + 1) * columns), formatValue);
  const makeHeadRow = (l, h) => {
    const name = `layer ${l + 1}, head ${h + 1}`;
    return [name, trace.distances[l][h].toFixed(2), trace.entropies[l][h].toFixed(2)];
  };
  const title = describeMap(trace, selection);
  const formatName = (text) => `vitdemo-${formatFileName(fill(text, { run: trace.run, map: title }))}`;
  const caption = selection.source === "similar"
    ? "{title}, cosine similarity"
    : isNorm(selection.source)
    ? "{title}, in percent of the sum of norms"
    : "{title}, in percent";
  return [
    markup`<p>${fill(caption, { title })}</p>`,
    drawTable({
      columns: ["row", ...makeRange(columns, (i) => i + 1)],
      rows: makeRange(trace.grid[0], (i) => [i + 1, ...makeRow(i)]),
      file: formatName(MAP_FILE),
      tall: true,
    }),
    markup`<p>Attention distance: mean distance between a patch and the patches it attends to. Entropy: spread of the attention, from 0 bits for attention to one token to ${
      Math.log2(trace.size).toFixed(1)
    } bits for uniform attention to all ${trace.size} tokens.</p>`,
    drawTable({
      columns: ["head", "attention distance (patches)", "entropy (bits)"],
      rows: makeRange(trace.layers, (l) => makeRange(trace.heads, (h) => makeHeadRow(l, h))).flat(),
      file: formatName("{run} heads"),
      tall: true,
    }),
  ];
}

// Why the map of the selection is not drawn.
export function describeWaiting({ norms, rollout }, { source, layer }) {
  if (isNorm(source) && norms?.sentence) return norms.sentence;
  if (source === "rollout" && layer < rollout.first) {
    return `This rollout starts at layer ${rollout.first}. Choose this layer or a later layer.`;
  }
  return "The numbers of this map are loading.";
}
