// The models to choose from, and the choices of model and layer, which their controls show.
import { showControl } from "./controls.js";
import { setDepth } from "./layer.js";
import { keys, listFollowers, set, state } from "./state.js";

let names = []; // in the order of the menu; [] before the first answer

export const getFirstModel = () => names[0] ?? null;

// Take the models, grouped by label, and the stamp that changes with them. A model that does not exist is replaced:
// before the first answer, it is from the URL; later, it was removed. Keys that follow the model keep a run of `others`.
export function takeModels({ stamp, groups, others, missing }, isFirst) {
  document.documentElement.dataset.missing = missing.join(" ");
  names = groups.flatMap(([, members]) => members);
  showControl("model", { props: { groups } });
  set({ models: stamp });
  if (names.includes(state.model)) return;
  const kept = others.includes(state.model)
    ? listFollowers("model").map((key) => [key, state[key] || state.model])
    : [];
  if (state.model) set({ unavailable: state.model, ...Object.fromEntries(kept) });
  set({ model: getFirstModel() }, { isCorrection: isFirst });
  showControl("model", { value: state.model });
}

export function takeDepth(depth) {
  setDepth(depth);
  set({}, { isCorrection: true }); // which settles the layer
  showControl(
    "layer",
    depth.layers ? { maximum: depth.layers, value: state.layer, interactive: true } : { interactive: false },
  );
}

// Set a key to the user's choice, and the keys that follow it.
export function choose(name, value) {
  const followers = Object.fromEntries(listFollowers(name).map((follower) => [follower, value]));
  const changes = { [name]: value, ...followers };
  const { leader } = keys[name];
  const isModel = !names.length || names.includes(value);
  if (leader && (leader !== "model" || isModel)) changes[leader] = value;
  if (name === "model") changes.unavailable = "";
  set(changes);
  for (const [key, chosen] of Object.entries(changes)) if (key !== name) showControl(key, { value: chosen });
}

// Choose the layer of all views, and move the slider to it.
export function chooseLayer(layer) {
  set({ layer });
  showControl("layer", { value: state.layer });
}

// Take a number from the layer control. The control shows the nearest layer instead of another number.
export function takeLayer(number) {
  if (!Number.isFinite(number)) return; // the box is empty while the user types
  set({ layer: Math.max(Math.round(number), 1) });
  if (state.layer !== number) showControl("layer", { value: state.layer });
}
