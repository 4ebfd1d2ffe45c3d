// Exchanges values and properties of gradio's controls with the store.
import { getShownValue, showControl, takeChanges } from "../store/controls.js";
import { choose, takeLayer } from "../store/models.js";
import { keys } from "../store/state.js";

const APPLY_TIME = 1000; // milliseconds within which gradio applies an update
const shown = {}; // properties of the controls by name, as JSON
const sentAt = {}; // time of the last value that gradio received for each control

// Return updates for the controls `names`, which gradio then applies.
export function takeUpdates(names) {
  const changes = takeChanges();
  const updates = names.map((name) => keepNewProperties(name, changes[name] ?? {}));
  for (const [i, name] of names.entries()) if ("value" in updates[i]) sentAt[name] = performance.now();
  return updates.map((update) => ({ __type__: "update", ...update }));
}

// Leave out properties that the control has already: an unnecessary value would undo a simultaneous choice of the
// user. A list needs its value with new choices, and events in Python also change the model.
function keepNewProperties(name, update) {
  if (name === "model") return update;
  const before = (shown[name] ??= {});
  const changed = Object.entries(update).filter(([key, value]) =>
    JSON.stringify(value) !== before[key] || (key === "value" && "choices" in update)
  );
  for (const [key, value] of changed) before[key] = JSON.stringify(value);
  return Object.fromEntries(changed);
}

// gradio reads the value of a control some time after the user's input. In the meantime it may apply an earlier value,
// for example in the frame after the section of the control is first opened. Therefore, the pressed button is used.
let pressed = null;
document.addEventListener("input", ({ target }) => {
  pressed = ["radio", "checkbox"].includes(target.type) ? target : null;
}, true);

function getPressedValue({ kind, choices, element }) {
  if (!["choice", "flag"].includes(kind) || !pressed?.closest(`#${element}`)) return undefined;
  return kind === "flag" ? pressed.checked : choices.find((value) => String(value) === pressed.value);
}

// Take the value that the user has given a control, which may be `read` too late. gradio may still apply an earlier
// value, which would hide the choice. A second click on the hidden option would have no effect. Therefore the choice is
// shown again. Sliders are excluded, because the user may still move them.
export function takeInput(name, read) {
  const value = getPressedValue(keys[name]) ?? read;
  (shown[name] ??= {}).value = JSON.stringify(value);
  if (name === "layer") return takeLayer(value);
  choose(name, value);
  const isHidden = value !== read ||
    (keys[name].kind === "choice" && performance.now() - sentAt[name] < APPLY_TIME);
  if (!isHidden) return;
  delete shown[name].value;
  showControl(name, { value: getShownValue(name) });
}
