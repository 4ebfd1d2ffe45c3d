// The controls of the page, whose values are part of the state. The page draws the controls, and
// takes changes of their properties from this module.
import { trigger } from "./channel.js";
import { keys, set, state } from "./state.js";

const updated = {}; // last update of each control as JSON
let changes = {}; // properties by control, which the page has not taken yet

// A control shows a value of the server while the state of a list is [""], because the user has not chosen yet, and while
// the model does not support the user's choice, which the next model may support.
const defaults = {}; // values of the server, by name
const choices = {}; // values that the model supports, by name
const isReplaced = (name) =>
  keys[name].kind === "choice"
    ? choices[name]?.includes(state[name]) === false
    : JSON.stringify(state[name]) === '[""]';
export const getShownValue = (name) => (isReplaced(name) ? defaults[name] : null) ?? state[name];

// Change properties of controls, given by name. A new value also changes the state, unless the control replaces it.
export function updateControls(updates) {
  for (const [name, properties] of Object.entries(updates)) {
    const isSameValue = JSON.stringify(properties.value ?? state[name]) === JSON.stringify(state[name]);
    if (updated[name] === JSON.stringify(properties) && isSameValue) continue;
    updated[name] = JSON.stringify(properties);
    if (properties.choices) choices[name] = properties.choices.map(([, value]) => value);
    if (isReplaced(name) && properties.value) defaults[name] = properties.value;
    showControl(name, properties);
  }
  const values = Object.entries(updates).filter(([name, properties]) =>
    "value" in properties && !isReplaced(name)
  );
  set(Object.fromEntries(values.map(([name, { value }]) => [name, value])), { isCorrection: true });
}

// Change properties of a control, but not the state.
export function showControl(name, properties) {
  changes[name] = { ...changes[name], ...properties };
  sendChanges();
}

// Send changes that were made together as one event. New choices would discard the text that the user types into a
// list, so changes wait until the list loses the focus.
let isSending = false;
function sendChanges() {
  if (isSending) return;
  isSending = true;
  queueMicrotask(() => {
    isSending = false;
    const isTyping = document.activeElement?.matches("input[role=combobox]");
    if (Object.keys(changes).length && !isTyping) trigger("controls");
  });
}
document.addEventListener("focusout", () => requestAnimationFrame(sendChanges));

// Return the changed properties by control, which are then shown. A later choice remains.
export function takeChanges() {
  const taken = changes;
  changes = {};
  for (const [name, change] of Object.entries(taken)) {
    if ("value" in change) change.value = getShownValue(name);
  }
  return taken;
}
