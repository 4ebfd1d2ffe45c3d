// Controls of a document without gradio: the page's menus and lists of runs, and plain controls.
import * as runChoice from "../page/components/run_choice.js";
import * as runList from "../page/components/run_list.js";
import { markup, nothing, render } from "../page/markup.js";
import * as store from "../page/store.js";

const controls = {}; // by state key: a function that applies the changes of its properties

// Fill `place` in the element `root` with a menu or list of runs for the state key `key`; `props` are the properties of
// `RunChoice` or `RunList`.
function mountRuns(component, root, place, key, props) {
  const draws = [];
  const trigger = () => key !== "model" && store.choose(key, props.value);
  root.classList.add("vd-choice");
  place.append(document.createElement("div"));
  component.mount({ element: place, props, trigger, watch: (_, draw) => draws.push(draw) });
  controls[key] = ({ props: own, ...changes }) => {
    Object.assign(props, changes, own);
    for (const draw of draws) draw();
  };
}

const drawLabelled = (label, control) => markup`<label>${label} ${control}</label>`;
const drawGroup = (label, content) => markup`<fieldset><legend>${label}</legend>${content}</fieldset>`;
const drawOptions = (choices, isChosen) =>
  choices.map(([text, value]) =>
    markup`<option value=${value} .selected=${isChosen(value)}>${text}</option>`
  );
const toggleName = (names, name, isIn) => [
  ...(names ?? []).filter((each) => each !== name),
  ...(isIn ? [name] : []),
];

function drawNumberInput(type, { label, minimum, maximum, step, value, interactive }, listeners) {
  return markup`<input type=${type} min=${minimum ?? nothing} max=${maximum ?? nothing} step=${step ?? "any"}
    aria-label=${label} .value=${String(value ?? "")} ?disabled=${interactive === false}
    @input=${listeners.input} @change=${listeners.change}>`;
}

// Templates by kind; `take` receives the value that the user chooses.
const templates = {
  checkbox: ({ label, value }, take) =>
    drawLabelled(
      label,
      markup`<input type="checkbox" .checked=${value} @change=${({ target }) => take(target.checked)}>`,
    ),
  checkboxgroup: ({ label, choices, value }, take) =>
    drawGroup(
      label,
      choices.map(([text, name]) => {
        const change = ({ target }) => take(toggleName(value, name, target.checked));
        return drawLabelled(
          text,
          markup`<input type="checkbox" .checked=${value?.includes(name)} @change=${change}>`,
        );
      }),
    ),
  radio: ({ label, choices, value, key }, take) =>
    drawGroup(
      label,
      choices.map(([text, each]) =>
        drawLabelled(
          text,
          markup`<input type="radio" name=${key} value=${each} .checked=${each === value}
            @change=${() => take(each)}>`,
        )
      ),
    ),
  dropdown: (props, take) =>
    props.multiselect ? templates.checkboxgroup(props, take) : drawLabelled(
      props.label,
      markup`<select class="vd-select" @change=${({ target }) =>
        take(props.choices[target.selectedIndex][1])}>${
        drawOptions(props.choices, (each) => each === props.value)
      }</select>`,
    ),
  slider: (props, take) => {
    const listen = ({ target }) => Number.isFinite(target.valueAsNumber) && take(target.valueAsNumber);
    return markup`${props.label} ${drawNumberInput("range", props, { input: listen })}${
      drawNumberInput("number", props, { change: listen })
    }`;
  },
};

// Fill `place` with the control `kind`. It is drawn again after each change.
function mountPlain(kind, place, key, props) {
  function take(value) {
    props.value = value;
    draw();
    key === "layer" ? store.takeLayer(value) : store.choose(key, value);
  }
  const draw = () => render(templates[kind]({ ...props, key }, take), place);
  controls[key] = (changes) => {
    Object.assign(props, changes);
    draw();
  };
  draw();
}

// Fill `place` in the element `root` with the control of the state key `key`, of the `kind` of `controls.py`.
export function mount(root, place, { key, kind, ...props }) {
  root.dataset.control = kind;
  if (kind in templates) mountPlain(kind, place, key, props);
  else mountRuns(kind === "runs" ? runList : runChoice, root, place, key, props);
}

// Apply the store's changes of controls.
export function update() {
  for (const [key, changes] of Object.entries(store.takeChanges())) controls[key]?.(changes);
}
