// Rows and columns of the attention matrices of one image and model, which are files.
// A `look` is the value of attention.py with `size` (N), `tokens`, `rolled`, `similar`, `together`
// (norm-weighted attention of all heads) and `sets` added: {"head": attention weights, "norm-head":
// norm-weighted attention or null}, each with {files, layers (the loaded files), rows, coming}.
import { fill, TEXTS } from "../texts.js";

const texts = TEXTS.matrices;
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
export async function matrices(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(fill(texts.not_loaded, { status: response.status }));
  const buffer = await response.arrayBuffer();
  const [magic, layers, maps, rows, columns] = new Uint32Array(buffer, 0, 5);
  const values = new (magic === SINGLE ? Float32Array : Uint16Array)(buffer, HEADER);
  if ((magic !== HALF && magic !== SINGLE) || values.length !== layers * maps * rows * columns) {
    throw new Error(texts.damaged);
  }
  return { layers, maps, rows, columns, [magic === SINGLE ? "singles" : "halves"]: values };
}

// All values of a loaded file, in order.
export const floats = ({ halves, singles }) => singles ?? Float32Array.from(halves, (bits) => HALVES[bits]);

// Tokens other than patches as {code, name (as "the class token"), label (as "class token"), indices}, and the
// token that the classifier reads.
export function tokensOf(value) {
  const [start, stop] = value.answer;
  const range = (from, to) => Array.from({ length: to - from }, (_, i) => from + i);
  const p = value.prefix.length;
  const named = (label) => fill(texts.named_token, { token: label });
  const found = value.prefix.map((label, i) => ({
    code: `t${i}`,
    name: /^register/.test(label) ? label : named(label),
    label,
    indices: [i],
  }));
  if (stop === 2) {
    found.push({ code: "both", name: texts.both_tokens, label: texts.both_tokens, indices: [0, 1] });
  }
  const mean = texts.mean_of_patches;
  found.push({
    code: "mean",
    name: named(mean),
    label: mean,
    indices: range(p, p + value.grid[0] * value.grid[1]),
  });
  const answering = stop === 1
    ? found[0]
    : found.find((token) => token.code === (stop === 2 ? "both" : "mean"));
  return { found, answering, start };
}

export function patchOf(look, number) {
  const columns = look.grid[1];
  const [row, column] = [Math.floor(number / columns) + 1, (number % columns) + 1];
  return {
    code: `${row},${column}`,
    name: fill(texts.patch, { row, column }),
    indices: [look.prefix.length + number],
    number,
  };
}

// Find the token with this code, or the nearest patch; for an unknown code, the classifier's token.
export function tokenNamed(look, code) {
  const place = /^(\d{1,4}),(\d{1,4})$/.exec(code);
  if (!place) return look.tokens.found.find((token) => token.code === code) ?? look.tokens.answering;
  const [row, column] = [1, 2].map((i) => Math.min(Math.max(Number(place[i]), 1), look.grid[i - 1]));
  return patchOf(look, (row - 1) * look.grid[1] + column - 1);
}

// Add the token's row (or column) of one matrix to `out` (N) with a weight; false if not loaded yet.
function add(out, found, layer, map, token, column, weight = 1) {
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

// Number of the file of a layer (from 1): one file has all layers, or each layer has its own.
export const fileOf = ({ files }, layer) => (files.length === 1 ? 0 : layer - 1);

// Add one head of one layer (both count from 1) of a set. The layers of a large model are loaded one
// by one; the rows of the classifier's token are loaded first.
function addHead(look, set, out, layer, head, token, column, weight) {
  if (!set) return false;
  const file = fileOf(set, layer);
  if (set.layers[file]) return add(out, set.layers[file], layer - 1 - file, head - 1, token, column, weight);
  if (!set.rows || column || token !== look.tokens.answering) return false;
  const own = { ...token, indices: token.indices.map((index) => index - look.tokens.start) };
  return add(out, set.rows, layer - 1, head - 1, own, false, weight);
}

// The attention of `token` to all tokens (N), or with `column` of all tokens to it; null if not loaded.
export function lineOf(look, of, layer, head, token, column) {
  const out = new Float32Array(look.size);
  if (of in look.sets) return addHead(look, look.sets[of], out, layer, head, token, column) ? out : null;
  if (of === "mean") {
    for (let h = 1; h <= look.heads; h++) {
      if (!addHead(look, look.sets.head, out, layer, h, token, column, 1 / look.heads)) return null;
    }
    return out;
  }
  if (of === "norm") return add(out, look.together, layer - 1, 0, token, column) ? out : null;
  if (of === "similar") return add(out, look.similar, layer - 1, 0, token, false) ? out : null;
  const step = layer - look.rollout.first;
  return step >= 0 && add(out, look.rolled, step, 0, token, column) ? out : null;
}

// The heads of all layers as [{layer, head}] per layer, by index or sorted by a measurement. They are
// sorted within each layer or, with `across`, over all layers.
export function headRows(look, order, across) {
  const values = { distance: look.distances, entropy: look.entropies }[order];
  const measured = ({ layer, head }) => values[layer - 1][head - 1];
  const count = (length) => Array.from({ length }, (_, i) => i + 1);
  const sorted = (heads) => (values ? heads.sort((a, b) => measured(a) - measured(b)) : heads);
  const rows = count(look.layers).map((layer) => sorted(count(look.heads).map((head) => ({ layer, head }))));
  if (!values || !across) return rows;
  const all = sorted(rows.flat());
  return rows.map((_, i) => all.slice(i * look.heads, (i + 1) * look.heads));
}
