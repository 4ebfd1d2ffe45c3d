// Texts and tables of attention maps. A `look` is as in matrices.js. A `view` identifies the map:
// {of, layer, head, incoming}, as in attention.js. `values` (N) are the weights of one token.
import { markup } from "../markup.js";
import { fill, MAP_FILE } from "../texts.js";
import { computeLine, getPatch } from "./matrices.js";
import { findLargest, formatFileName, formatPercent, makeRange } from "./shared.js";
import { drawTable } from "./table.js";

const POINTED_RECEIVES = "Row {row}, column {column} receives {percent} from {token}. ";
export const getPatchValues = (look, values) => values.subarray(look.prefix.length);
const isNorm = (of) => of === "norm" || of === "norm-head";
const computeTotal = (map) => map.reduce((sum, value) => sum + value, 0);

export function describeMap(look, { of, layer, head, incoming }, token) {
  const first = look.rollout.first;
  const map = {
    head: "Layer {layer}, head {head}",
    mean: "Layer {layer}, mean of {heads} heads",
    norm: "Layer {layer}, norm-weighted attention of {heads} heads",
    "norm-head": "Layer {layer}, head {head}, norm-weighted attention",
    rollout: layer > first
      ? "Attention rollout of layers {first} to {layer}{settings}"
      : "Attention rollout of layer {layer}{settings}",
    similar: "After layer {layer}",
  }[of];
  const [outgoing, received] = isNorm(of)
    ? ["{map}: tokens that pass most to {token}", "{map}: tokens that receive most from {token}"]
    : ["{map}: attention of {token}", "{map}: attention to {token}"];
  const title = of === "similar"
    ? "{map}: patches whose tokens are similar to {token}"
    : incoming
    ? received
    : outgoing;
  return fill(title, {
    map: fill(map, { layer, head, heads: look.heads, first, settings: look.rollout.settings }),
    token: token.name,
  });
}

// The fraction of one token's attention that all patches together receive; 1 without special tokens.
export function computePatchShare(look, { of, incoming }, values) {
  return of === "similar" || incoming || !look.prefix.length ? 1 : computeTotal(getPatchValues(look, values));
}

// The patches with the highest values, and their fraction of the sum over all patches.
function findStrongest(map, few = 3) {
  const first = [...map.keys()].sort((a, b) => map[b] - map[a]).slice(0, few);
  return [first, computeShare(map, first)];
}
const computeShare = (map, chosen) => chosen.reduce((sum, i) => sum + map[i], 0) / computeTotal(map);

// A note if three patches have a third of the attention weights, because these patches may still pass on little.
export function describeFewPatches(look, { of, layer, incoming }, token, values) {
  if (!["mean", "norm"].includes(of) || incoming || token !== look.tokens.answering) return "";
  const weights = of === "mean" ? values : computeLine(look, "mean", layer, 1, token, false);
  const map = weights && getPatchValues(look, weights);
  if (!map || map.length < 60) return "";
  const [first, share] = findStrongest(map);
  if (share < 1 / 3) return "";
  if (of === "norm") {
    return `The three most attended patches receive ${
      formatPercent(share)
    } of the attention on patches, and have ${
      formatPercent(computeShare(getPatchValues(look, values), first))
    } of the sum of norms.`;
  }
  return `The three most attended of ${map.length} patches receive ${
    formatPercent(share)
  } of the attention on patches. Choose “norm-weighted” under Show to see how much these patches pass on.`;
}

function describeLargest(look, map) {
  const best = map.indexOf(Math.max(...map));
  return `row ${Math.floor(best / look.grid[1]) + 1}, column ${(best % look.grid[1]) + 1}: ${
    formatPercent(findLargest(map))
  }`;
}

// The weight between the patch under the pointer (its number, or null) and the class token.
function describePointed(look, { of, layer, head, incoming }, pointed) {
  if (pointed === null || of === "similar") return "";
  const { answering } = look.tokens;
  const own = computeLine(look, of, layer, head, answering, incoming);
  const [row, column] = getPatch(look, pointed).code.split(",");
  if (!own) return `Row ${row}, column ${column}. `;
  const [received, sent] = isNorm(of)
    ? [POINTED_RECEIVES, "Row {row}, column {column} passes {percent} to {token}. "]
    : ["Row {row}, column {column} attends to {token} with weight {percent}. ", POINTED_RECEIVES];
  return fill(incoming ? received : sent, {
    row,
    column,
    percent: formatPercent(own[look.prefix.length + pointed]),
    token: answering.name,
  });
}

export function describeValues(look, view, values, pointed) {
  const map = getPatchValues(look, values);
  if (view.of === "similar") {
    return "Cosine similarity of the tokens: orange is similar, and purple is opposite.";
  }
  const most = { pointed: describePointed(look, view, pointed), largest: describeLargest(look, map) };
  if (view.incoming) {
    return fill(
      isNorm(view.of)
        ? "{pointed}Maximum: {largest} of the norms that this patch receives."
        : "{pointed}Maximum: {largest} of this patch's attention.",
      most,
    );
  }
  const maximum = fill(
    isNorm(view.of) ? "{pointed}Maximum: {largest} of the sum of norms." : "{pointed}Maximum: {largest}.",
    most,
  );
  return look.prefix.length ? `${maximum} ${describeAllPatches(look, view, values)}` : maximum;
}

function describeAllPatches(look, view, values) {
  const share = computePatchShare(look, view, values);
  if (isNorm(view.of)) return `All patches together have ${formatPercent(share)}.`;
  const rest = look.prefix.length > 1 ? "special tokens" : "the class token itself";
  return fill(
    share < 0.2
      ? "All patches together receive only {percent}. The rest goes to {rest}, so interpret this map with care."
      : "All patches together receive {percent}.",
    {
      percent: formatPercent(share),
      rest,
    },
  );
}

// Tables with captions: the numbers of the map, and the measurements of all heads.
export function drawMapTables(look, view, token, values) {
  const map = getPatchValues(look, values);
  const columns = look.grid[1];
  const formatValue = (value) => (view.of === "similar" ? value.toFixed(3) : (100 * value).toFixed(2));
  const makeRow = (i) => Array.from(map.subarray(i * columns, (i + 1) * columns), formatValue);
  const makeHeadRow = (l, h) => {
    const name = `layer ${l + 1}, head ${h + 1}`;
    return [name, look.distances[l][h].toFixed(2), look.entropies[l][h].toFixed(2)];
  };
  const title = describeMap(look, view, token);
  const formatName = (text) => `vitdemo-${formatFileName(fill(text, { run: look.run, map: title }))}`;
  const caption = view.of === "similar"
    ? "{title}, cosine similarity"
    : isNorm(view.of)
    ? "{title}, in percent of the sum of norms"
    : "{title}, in percent";
  return [
    markup`<p>${fill(caption, { title })}</p>`,
    drawTable({
      columns: ["row", ...makeRange(columns, (i) => i + 1)],
      rows: makeRange(look.grid[0], (i) => [i + 1, ...makeRow(i)]),
      file: formatName(MAP_FILE),
      tall: true,
    }),
    markup`<p>Attention distance: mean distance between a patch and the patches it attends to. Entropy: spread of the attention, from 0 bits for attention to one token to ${
      Math.log2(look.size).toFixed(1)
    } bits for uniform attention to all ${look.size} tokens.</p>`,
    drawTable({
      columns: ["head", "attention distance (patches)", "entropy (bits)"],
      rows: makeRange(look.layers, (l) => makeRange(look.heads, (h) => makeHeadRow(l, h))).flat(),
      file: formatName("{run} heads"),
      tall: true,
    }),
  ];
}
