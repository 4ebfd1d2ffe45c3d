// Texts and tables of attention maps. A `look` is as in matrices.js. A `view` identifies the map:
// {of, layer, head, incoming}, as in attention.js. `values` (N) are the weights of one token.
import { markup } from "../markup.js";
import { fill, TEXTS } from "../texts.js";
import { computeLine, getPatch } from "./matrices.js";
import { findLargest, formatFileName, formatPercent, makeRange } from "./shared.js";
import { drawTable } from "./table.js";

const texts = TEXTS.attention_maps;
export const getPatchValues = (look, values) => values.subarray(look.prefix.length);
const isNorm = (of) => of === "norm" || of === "norm-head";
const computeTotal = (map) => map.reduce((sum, value) => sum + value, 0);

export function describeMap(look, { of, layer, head, incoming }, token) {
  const first = look.rollout.first;
  const map = {
    head: texts.map_head,
    mean: texts.map_mean,
    norm: texts.map_norm,
    "norm-head": texts.map_norm_head,
    rollout: layer > first ? texts.map_rollout : texts.map_rollout_of_layer,
    similar: texts.map_similar,
  }[of];
  const [outgoing, received] = isNorm(of)
    ? [texts.title_norm_outgoing, texts.title_norm_incoming]
    : [texts.title_outgoing, texts.title_incoming];
  const title = of === "similar" ? texts.title_similar : incoming ? received : outgoing;
  return fill(title, {
    map: fill(map, { layer, head, heads: look.heads, first, settings: look.rollout.words }),
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
    return fill(texts.few_norms, {
      percent: formatPercent(share),
      norms: formatPercent(computeShare(getPatchValues(look, values), first)),
    });
  }
  return fill(texts.few_patches, { patches: map.length, percent: formatPercent(share) });
}

function describeLargest(look, map) {
  const best = map.indexOf(Math.max(...map));
  return fill(texts.largest, {
    row: Math.floor(best / look.grid[1]) + 1,
    column: (best % look.grid[1]) + 1,
    percent: formatPercent(findLargest(map)),
  });
}

// The weight between the patch under the pointer (its number, or null) and the class token.
function describePointed(look, { of, layer, head, incoming }, pointed) {
  if (pointed === null || of === "similar") return "";
  const { answering } = look.tokens;
  const own = computeLine(look, of, layer, head, answering, incoming);
  const [row, column] = getPatch(look, pointed).code.split(",");
  if (!own) return fill(texts.pointed, { row, column });
  const [received, sent] = isNorm(of)
    ? [texts.pointed_receives, texts.pointed_passes]
    : [texts.pointed_attends, texts.pointed_receives];
  return fill(incoming ? received : sent, {
    row,
    column,
    percent: formatPercent(own[look.prefix.length + pointed]),
    token: answering.name,
  });
}

export function describeValues(look, view, values, pointed) {
  const map = getPatchValues(look, values);
  if (view.of === "similar") return texts.similarity;
  const most = { pointed: describePointed(look, view, pointed), largest: describeLargest(look, map) };
  if (view.incoming) {
    return fill(isNorm(view.of) ? texts.maximum_norms_incoming : texts.maximum_incoming, most);
  }
  const maximum = fill(isNorm(view.of) ? texts.maximum_norms : texts.maximum, most);
  return look.prefix.length ? `${maximum} ${describeAllPatches(look, view, values)}` : maximum;
}

function describeAllPatches(look, view, values) {
  const share = computePatchShare(look, view, values);
  if (isNorm(view.of)) return fill(texts.all_patches, { percent: formatPercent(share) });
  const rest = look.prefix.length > 1 ? texts.rest_special : texts.rest_class;
  return fill(share < 0.2 ? texts.all_receive_little : texts.all_receive, {
    percent: formatPercent(share),
    rest,
  });
}

// Tables with captions: the numbers of the map, and the measurements of all heads.
export function drawMapTables(look, view, token, values) {
  const map = getPatchValues(look, values);
  const columns = look.grid[1];
  const formatValue = (value) => (view.of === "similar" ? value.toFixed(3) : (100 * value).toFixed(2));
  const makeRow = (i) => Array.from(map.subarray(i * columns, (i + 1) * columns), formatValue);
  const makeHeadRow = (l, h) => {
    const name = fill(texts.head_row, { layer: l + 1, head: h + 1 });
    return [name, look.distances[l][h].toFixed(2), look.entropies[l][h].toFixed(2)];
  };
  const title = describeMap(look, view, token);
  const formatName = (text) => `vitdemo-${formatFileName(fill(text, { run: look.run, map: title }))}`;
  const caption = view.of === "similar"
    ? texts.table_similarity
    : isNorm(view.of)
    ? texts.table_norms
    : texts.table_percent;
  return [
    markup`<p>${fill(caption, { title })}</p>`,
    drawTable({
      columns: [texts.row_column, ...makeRange(columns, (i) => i + 1)],
      rows: makeRange(look.grid[0], (i) => [i + 1, ...makeRow(i)]),
      file: formatName(texts.map_file),
      tall: true,
    }),
    markup`<p>${fill(texts.heads_table, { bits: Math.log2(look.size).toFixed(1), tokens: look.size })}</p>`,
    drawTable({
      columns: [texts.head_column, texts.distance_column, texts.entropy_column],
      rows: makeRange(look.layers, (l) => makeRange(look.heads, (h) => makeHeadRow(l, h))).flat(),
      file: formatName(texts.heads_table_file),
      tall: true,
    }),
  ];
}
