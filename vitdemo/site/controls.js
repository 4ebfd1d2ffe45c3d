// Controls of a document without gradio: the menus of runs, which are the page's own, and the layer.
import * as runChoice from "../page/components/run_choice.js";
import * as store from "../page/store.js";

const controls = {}; // by state key: a function that applies the changes of its properties

// Add a menu of runs to `root` for the state key `key`; `props` are those of `RunChoice`.
function mountMenu(root, key, props) {
  const draws = [];
  const trigger = () => key !== "model" && store.takeInput(key, props.value);
  root.className = "vd-choice";
  runChoice.mount({ element: root, props, trigger, watch: (_, draw) => draws.push(draw) });
  controls[key] = ({ props: own, ...changes }) => {
    Object.assign(props, changes, own);
    for (const draw of draws) draw();
  };
}

// Add a slider with a box for the number of the layer.
function mountLayer(root, key, { label }) {
  const [range, number] = ["range", "number"].map((type) =>
    Object.assign(document.createElement("input"), { type, min: 1, ariaLabel: label })
  );
  range.addEventListener("input", () => store.takeLayer(range.valueAsNumber));
  number.addEventListener("change", () => store.takeLayer(number.valueAsNumber));
  root.append(label, number, range);
  controls[key] = ({ value, maximum, interactive }) => {
    for (const input of [range, number]) {
      if (maximum !== undefined) input.max = maximum;
      if (interactive !== undefined) input.disabled = !interactive;
      if (value !== undefined) input.value = value;
    }
  };
}

export const mount = (root, { key, ...props }) =>
  (key === "layer" ? mountLayer : mountMenu)(root, key, props);

// Apply the changes that the store has for controls.
export function update() {
  const keys = Object.keys(controls);
  for (const [i, changes] of store.takeUpdates(keys).entries()) controls[keys[i]](changes);
}
