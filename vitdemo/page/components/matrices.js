// Rows and columns of the attention matrices of one image and model, which are files.
// A `trace` is the payload of the attention view with `size` (N), `tokens`, `together` (norm-weighted attention of all
// heads) and the matrices of its `sets`: {"head": attention weights, "rollout", "similar": token similarity, "norm-head":
// norm-weighted attention, if it was requested}. A set is {files (URLs), rows, layers (the loaded files), coming (their
// promises while they are loaded)}.
import { makeRange } from "./shared.js";

const BOTH_TOKENS = "both tokens together";
const [HALF, SINGLE] = [0x316d6476, 0x31666476]; // "vdm1", "vdf1"
const HEADER = 20; // bytes: magic, layers, maps, rows, columns, each as uint32

// float16 -> float32 by a table of all 65,536 values, for browsers without Float16Array.
const HALVES = new Float32Array(65536);
for (let bits = 0; bits < 65536; bits++) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) HALVES[bits] = fraction ? NaN : sign * Infinity;
  else if (exponent === 0) HALVES[bits] = sign * fraction * 2 ** -24;
  else HALVES[bits] = sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

// Load a file of vitdemo/page/components/matrix_file.py: {layers, maps, rows, columns, halves or singles}.
export async function loadMatrices(url) {
  const response = await fetch(url);
  if (!response.ok) {
    throw new Error(
      `The attention weights could not be loaded (HTTP status ${response.status}). Reload the page.`,
    );
  }
  const buffer = await response.arrayBuffer();
  const [magic, layers, maps, rows, columns] = new Uint32Array(buffer, 0, 5);
  const values = new (magic === SINGLE ? Float32Array : Uint16Array)(buffer, HEADER);
  if ((magic !== HALF && magic !== SINGLE) || values.length !== layers * maps * rows * columns) {
    throw new Error("The file of attention weights is damaged. Reload the page.");
  }
  return { layers, maps, rows, columns, [magic === SINGLE ? "singles" : "halves"]: values };
}

// All values of a loaded file, in order.
export const decodeValues = ({ halves, singles }) =>
  singles ?? Float32Array.from(halves, (bits) => HALVES[bits]);

// Tokens other than patches as {code, name ("the class token"), label ("class token"), indices}, and the token that the
// classifier reads.
export function listTokens(value) {
  const [, stop] = value.answer;
  const p = value.prefix.length;
  const formatName = (label) => `the ${label}`;
  const found = value.prefix.map((label, i) => ({
    code: `t${i}`,
    name: /^register/.test(label) ? label : formatName(label),
    label,
    indices: [i],
  }));
  if (stop === 2) {
    found.push({ code: "both", name: BOTH_TOKENS, label: BOTH_TOKENS, indices: [0, 1] });
  }
  const mean = "mean of the patches";
  found.push({
    code: "mean",
    name: formatName(mean),
    label: mean,
    indices: makeRange(value.grid[0] * value.grid[1], (i) => p + i),
  });
  const answering = stop === 1
    ? found[0]
    : found.find((token) => token.code === (stop === 2 ? "both" : "mean"));
  return { found, answering };
}

export function getPatch(trace, number) {
  const columns = trace.grid[1];
  const [row, column] = [Math.floor(number / columns) + 1, (number % columns) + 1];
  return {
    code: `${row},${column}`,
    name: `the patch in row ${row}, column ${column}`,
    indices: [trace.prefix.length + number],
    number,
  };
}

// Find the token with this code, or the nearest patch; for an unknown code, the classifier's token.
export function findToken(trace, code) {
  const place = /^(\d{1,4}),(\d{1,4})$/.exec(code);
  if (!place) return trace.tokens.found.find((token) => token.code === code) ?? trace.tokens.answering;
  const [row, column] = [1, 2].map((i) => Math.min(Math.max(Number(place[i]), 1), trace.grid[i - 1]));
  return getPatch(trace, (row - 1) * trace.grid[1] + column - 1);
}

// Add the token's row (or column) of one matrix to `out` (N) with a weight; false if not loaded yet.
function addLine(out, found, layer, map, token, column, weight = 1) {
  if (!found) return false;
  const { maps, rows, columns, halves } = found;
  const base = (layer * maps + map) * rows * columns;
  const share = weight / token.indices.length;
  for (const index of token.indices) {
    let at = base + (column ? index : index * columns);
    const step = column ? columns : 1;
    for (let j = 0; j < out.length; j++, at += step) out[j] += HALVES[halves[at]] * share;
  }
  return true;
}

// Place of a layer (from 1) in the set `source`: {set, file (its number)}, or null. One file has all layers, or each layer
// has its own. A rollout has no map before its first layer.
function locateLayer(trace, source, layer) {
  const set = trace.sets[source];
  const isBefore = source === "rollout" && layer < trace.rollout.first;
  return set && !isBefore ? { set, file: set.files.length === 1 ? 0 : layer - 1 } : null;
}

export const makeMatrixSet = (files, rows) => ({
  files: files.map((file) => file.url),
  rows,
  layers: [],
  coming: {},
});

// Load the file of a layer of the set `source`, unless it is loaded.
export async function loadLayer(trace, source, layer) {
  const { set, file } = locateLayer(trace, source, layer) ?? {};
  if (!set || set.layers[file]) return;
  set.coming[file] ??= loadMatrices(set.files[file]);
  try {
    set.layers[file] = await set.coming[file];
  } finally {
    delete set.coming[file];
  }
}

// Add one head of one layer (both count from 1) of the set `source`. The classifier's rows are loaded first.
function addHead(trace, source, out, layer, head, token, column, weight) {
  const { set, file } = locateLayer(trace, source, layer) ?? {};
  if (!set) return false;
  if (set.layers[file]) {
    return addLine(out, set.layers[file], layer - 1 - file, head - 1, token, column, weight);
  }
  if (column || token !== trace.tokens.answering) return false;
  return addLine(out, set.rows, layer - 1, head - 1, { indices: [0] }, false, weight);
}

// The attention of `token` to all tokens (N) or, with `column`, the attention of all tokens to `token`; null if not
// loaded.
export function computeLine(trace, source, layer, head, token, column) {
  const out = new Float32Array(trace.size);
  if (source === "mean") {
    for (let h = 1; h <= trace.heads; h++) {
      if (!addHead(trace, "head", out, layer, h, token, column, 1 / trace.heads)) return null;
    }
    return out;
  }
  if (source === "norm") return addLine(out, trace.together, layer - 1, 0, token, column) ? out : null;
  const hasHeads = source === "head" || source === "norm-head";
  const isColumn = column && source !== "similar"; // similarity is symmetric
  return addHead(trace, source, out, layer, hasHeads ? head : 1, token, isColumn) ? out : null;
}

// The heads of all layers as [{layer, head}] per layer, by index or sorted by a measurement. Heads
// are sorted within each layer or, with `across`, over all layers.
export function makeHeadRows(trace, order, across) {
  const values = { distance: trace.distances, entropy: trace.entropies }[order];
  const getMeasurement = ({ layer, head }) => values[layer - 1][head - 1];
  const sortHeads = (heads) => (values ? heads.sort((a, b) => getMeasurement(a) - getMeasurement(b)) : heads);
  const rows = makeRange(
    trace.layers,
    (l) => sortHeads(makeRange(trace.heads, (h) => ({ layer: l + 1, head: h + 1 }))),
  );
  if (!values || !across) return rows;
  const all = sortHeads(rows.flat());
  return rows.map((_, i) => all.slice(i * trace.heads, (i + 1) * trace.heads));
}
