// The controls above the grid: the menu of maps, the settings of rollout, and the display options.
import { addMenuListeners, makeRange } from "../../components/shared.js";
import { markup, render } from "../../markup.js";
import * as store from "../../store.js";
import { fill, SOURCE_HEAD } from "../../texts.js";
import { drawRolloutSettings } from "./rollout_settings.js";
import { SOURCES } from "./selection.js";

const getLabel = (name) => store.keys[name].label;

function drawSelect(className, options, chosen, change, isDisabled = false) {
  const drawOption = ([value, text]) =>
    markup`<option value=${value} .selected=${value === chosen}>${text}</option>`;
  return markup`<select class=${className} ?disabled=${isDisabled} @change=${({ target }) =>
    change(target.value)}>${options.map(drawOption)}</select>`;
}

// A list whose choice is the value of a state key.
const drawKeySelect = (name, state, isDisabled) =>
  drawSelect(
    name,
    Object.entries(store.getLabels(name)),
    state[name],
    (value) => store.set({ [name]: value }),
    isDisabled,
  );

// Norm-weighted maps have a switch of their own.
const WEIGHTED = { head: "norm-head", mean: "norm" };
const PLAIN = Object.fromEntries(Object.entries(WEIGHTED).map((pair) => pair.toReversed()));

function drawSourceMenu({ heads }, { source, head, isNorm }, choose) {
  const plain = PLAIN[source] ?? source;
  const options = [
    ...makeRange(heads, (i) => [`head ${i + 1}`, fill(SOURCE_HEAD, { head: i + 1 })]),
    ...Object.entries(SOURCES).filter(([name]) => !(name in PLAIN)),
  ];
  function change(entry) {
    const [name, number] = entry.split(" ");
    choose({ source: (isNorm && WEIGHTED[name]) || name, ...(number ? { head: Number(number) } : {}) });
  }
  return markup`<label><span>${getLabel("source")}</span> ${
    drawSelect("source", options, plain === "head" ? `head ${head}` : plain, change)
  }</label>`;
}

function drawNormSwitch({ source, isNorm }, choose) {
  const change = ({ target }) => choose({ source: target.checked ? WEIGHTED[source] : PLAIN[source] });
  return markup`<label><input type="checkbox" class="norm-weighted" .checked=${isNorm}
    ?disabled=${!isNorm && !(source in WEIGHTED)} @change=${change}> norm-weighted attention</label>`;
}

function drawCheckbox(className, name, isChecked, change, isDisabled = false) {
  return markup`<label><input type="checkbox" class=${className} .checked=${isChecked} ?disabled=${isDisabled}
    @change=${({ target }) => store.set(change(target.checked))}> ${getLabel(name)}</label>`;
}

function drawSettings(state, choose, saves) {
  const { across, scale, order, opacity, view, source } = state;
  const isRaw = view === "Raw";
  const setOpacity = ({ target }) => store.set({ opacity: target.valueAsNumber });
  return markup`<details class="display options">
    <summary>Settings</summary>
    <div class="panel">
      <label>${getLabel("direction")} ${drawKeySelect("direction", state, source === "similar")}</label>
      ${drawNormSwitch(state, choose)}
      <label>${getLabel("order")} ${drawKeySelect("order", state)}</label>
      ${drawCheckbox("across", "across", across, (is) => ({ across: is }), order === "own")}
      <label>${getLabel("colour")} ${drawKeySelect("colour", state)}</label>
      ${drawCheckbox("one", "scale", scale, (is) => ({ scale: is }))}
      ${drawCheckbox("raw", "view", isRaw, (is) => ({ view: is ? "Raw" : "Overlay" }))}
      <label>${
    getLabel("opacity")
  } <input type="range" class="opacity" min="0" max="1" step="0.05" .value=${opacity}
        ?disabled=${isRaw} @input=${setOpacity}></label>
      <div class="save">${saves}</div>
    </div>
  </details>`;
}

// The controls in `bar`. `choose(changes)` chooses another map, and `saves` and `share` are buttons. Return
// `show(trace, selection)`.
export function createControls(bar, choose, { saves, share }) {
  const show = (trace, selection) =>
    render(
      [
        drawSourceMenu(trace, selection, choose),
        drawRolloutSettings(selection, trace.layers),
        drawSettings(selection, choose, saves),
        share,
      ],
      bar,
    );
  addMenuListeners(bar, () => [...bar.querySelectorAll("details.display")]);
  show({ heads: 0, layers: 1 }, store.state); // so that the first map does not move the layout
  return show;
}
