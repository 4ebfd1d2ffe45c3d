// The selection of the view: the user's choices in the view state, within the limits of the drawn model.
import { computeLine, findToken, getPatch } from "../../components/matrices.js";
import { clamp } from "../../components/shared.js";
import * as store from "../../store.js";

const { head: _head, "norm-head": _normHead, ...SOURCES } = store.getLabels("source");
const NORMS = ["norm", "norm-head"]; // the server computes these when one of them is first chosen
export { SOURCES }; // maps that combine all heads
export const isOfHead = (source) => source === "head" || source === "norm-head";

export const KEYS = [
  ...["layer", "source", "head", "token", "direction", "order"],
  ...["across", "scale", "colour", "view", "opacity"],
];

const clampNumber = (number, top) => clamp(Math.round(Number(number)) || 1, 1, top);

// Return the state with its values within the limits of `trace`. `pointed` is the number of the patch under the pointer, or
// null. Further fields: `chosen` and `token` (the chosen token, and the shown one), and `set` ("head" or "norm-head", the
// maps in the grid).
export function readSelection(trace, state, pointed) {
  const source = state.source ?? trace.source; // without a choice, the map with the highest mean score
  const chosen = findToken(trace, state.token);
  const isNorm = NORMS.includes(source);
  return {
    ...state,
    source,
    layer: clampNumber(state.layer ?? trace.layer, trace.layers),
    head: clampNumber(state.head, trace.heads),
    chosen,
    pointed,
    token: pointed === null ? chosen : getPatch(trace, pointed),
    isIncoming: state.direction === "incoming" && source !== "similar",
    isNorm,
    isSigned: source === "similar",
    isMixed: state.order !== "own" && state.across,
    set: isNorm ? "norm-head" : "head",
  };
}

// Change the choices.
export function choose({ layer, ...changes }) {
  store.set(changes);
  if (layer) store.chooseLayer(layer);
}

// The values (N) of the map of a selection, or null if they are not loaded.
export const readValues = (trace, { source, layer, head, token, direction }) =>
  computeLine(trace, source, layer, head, token, direction === "incoming");

export const getPatchValues = (trace, values) => values.subarray(trace.prefix.length);

// The values of the patches, or null.
export function readPatches(trace, selection) {
  const values = readValues(trace, selection);
  return values && getPatchValues(trace, values);
}

// Similarities have no sinks, so their scale is always linear.
export const getColours = (source, colour) => (source === "similar" ? { signed: true } : { scale: colour });
