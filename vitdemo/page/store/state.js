// The view state, which has a value for each key of state_keys.py.
import { STATE_KEYS } from "../generated.js";
import { getChosenLayer, setChosenLayer, settleLayer } from "./layer.js";

export const keys = STATE_KEYS; // with the start values and choices of the page's controls, see `describeControls`
export const state = Object.fromEntries(Object.entries(keys).map(([name, { start }]) => [name, start]));
export let controlNames = []; // keys that have a control
const listeners = []; // { getWatched, listen }
let drawChanges = () => {}; // called after all listeners, with the changed keys

// With `isCorrection`, the changes replace values that do not exist, which the server also does, so no task is
// cancelled.
export function set(changes, { isCorrection = false } = {}) {
  const unknown = Object.keys(changes).find((name) => !(name in keys));
  if (unknown) throw new Error(`${unknown} is not a state key`);
  if (changes.layer) setChosenLayer(changes.layer);
  const before = { ...state };
  Object.assign(state, changes);
  settleLayer(state);
  const changed = Object.keys(state).filter((key) =>
    JSON.stringify(state[key]) !== JSON.stringify(before[key])
  );
  if (!changed.length) return;
  for (const { getWatched, listen } of listeners) {
    if (getWatched().some((key) => changed.includes(key))) listen(state, changes, isCorrection);
  }
  drawChanges(changed);
}

// Call `listen(state, changes, isCorrection)` after changes of the keys `watched`, or of the keys that this function
// returns, before views are drawn and requested. `changes` are all keys that were set together, with their values.
export const watch = (watched, listen) =>
  listeners.push({ getWatched: typeof watched === "function" ? watched : () => watched, listen });

export function drawAfterChanges(draw) {
  drawChanges = draw;
}

// Set the start values of the page's controls.
export function describeControls(controls) {
  controlNames = Object.keys(controls);
  for (const [name, control] of Object.entries(controls)) {
    state[name] = Object.assign(keys[name], control).start;
  }
}

// Value of a key that a view needs. A key with a leader has the leader's value unless it has its own value.
export function getValue(key) {
  if (key === "layer") return getChosenLayer();
  const { leader } = keys[key];
  return leader ? state[key] || (state[leader] ?? "") : state[key];
}

// The state in a request; the model is "" if no run has weights.
export const describeState = () => ({ ...state, model: state.model ?? "", layer: getChosenLayer() });

// The labels of a key's choices by value.
export const getLabels = (name) =>
  Object.fromEntries(keys[name].choices.map((value, i) => [value, keys[name].labels[i]]));

// The keys that follow `leader`: a choice of a key also chooses its leader, and the reverse.
export const listFollowers = (leader) => Object.keys(keys).filter((name) => keys[name].leader === leader);
