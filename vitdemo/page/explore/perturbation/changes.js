// The changes of the image in the view state, as encoded by changes.py. The removed patches are the text `removed`:
// rows, columns, and one bit per patch.
import * as store from "../../store.js";

const OTHERS = ["pieces", "rotate", "brightness", "blur", "noise", "jpeg"]; // changes of the pixels but removed patches

// All keys of changes. The button of a preset is pressed if the state contains its changes.
export const KEYS = [...OTHERS, "seed", "patches", "removed"];

export function encode(cells, [rows, columns]) {
  const bits = cells.reduce((sum, cell) => sum | (1n << BigInt(cell)), 0n);
  return cells.length ? `${rows}.${columns}.${bits.toString(16)}` : "";
}

// The removed patches; no patches if `code` is invalid or belongs to another grid.
export function decode(code, [rows, columns]) {
  const [, grid, digits] = /^(\d+\.\d+)\.([0-9a-f]{1,1024})$/.exec(code) ?? [];
  if (grid !== `${rows}.${columns}`) return [];
  const bits = BigInt(`0x${digits}`);
  if (bits >> BigInt(rows * columns)) return [];
  return [...Array(rows * columns).keys()].filter((cell) => (bits >> BigInt(cell)) & 1n);
}

export const setRemoved = (code) => store.set({ removed: code });

// Set the controls of changes.
export const change = (values) =>
  store.updateControls(Object.fromEntries(Object.entries(values).map(([name, value]) => [name, { value }])));

export function apply({ removed, ...values }) {
  change(values);
  setRemoved(removed);
}

export const hasOtherChanges = () =>
  OTHERS.some((name) => String(store.state[name]) !== String(store.keys[name].start));

// Whether the state has these changes, with any seed.
export const isApplied = ({ seed: _seed, ...values }) =>
  Object.entries(values).every(([name, value]) => String(store.state[name]) === String(value));
