// The controls above the maps: the menu of maps, the settings of rollout, the direction, and the display options.
import { makeRange } from "../../components/shared.js";
import { markup, render } from "../../markup.js";
import * as store from "../../store.js";
import { fill, SOURCE_HEAD } from "../../texts.js";
import { drawRolloutSettings } from "./rollout_settings.js";
import { SOURCES } from "./selection.js";

const getLabel = (name) => store.keys[name].label;

function drawSelect(className, options, chosen, change) {
  const drawOption = ([value, text]) =>
    markup`<option value=${value} .selected=${value === chosen}>${text}</option>`;
  return markup`<select class=${className} @change=${({ target }) => change(target.value)}>${
    options.map(drawOption)
  }</select>`;
}

// A list whose choice is the value of a state key.
const drawKeySelect = (name, state) =>
  drawSelect(
    name,
    Object.entries(store.getLabels(name)),
    state[name],
    (value) => store.set({ [name]: value }),
  );

function drawSourceMenu({ heads }, { source, head }, choose) {
  const makeHeadOptions = (name, text) =>
    makeRange(heads, (i) => [`${name} ${i + 1}`, fill(text, { head: i + 1 })]);
  const options = [
    ...makeHeadOptions("head", SOURCE_HEAD),
    ...Object.entries(SOURCES),
    ...makeHeadOptions("norm-head", "norm-weighted, head {head}"),
  ];
  function change(entry) {
    const [name, number] = entry.split(" ");
    choose(number ? { source: name, head: Number(number) } : { source: name });
  }
  return markup`<label><span>${getLabel("source")}</span> ${
    drawSelect("source", options, source in SOURCES ? source : `${source} ${head}`, change)
  }</label>`;
}

function drawDirections({ direction, source }) {
  const drawButton = ([name, text]) =>
    markup`<button type="button" data-name=${name} aria-pressed=${String(name === direction)}
      aria-disabled=${String(source === "similar")} @click=${() =>
      store.set({ direction: name })}>${text}</button>`;
  return markup`<div class="direction" role="group" aria-label=${getLabel("direction")}>${
    Object.entries(store.getLabels("direction")).map(drawButton)
  }</div>`;
}

function drawCheckbox(className, name, isChecked, change, isDisabled = false) {
  return markup`<label><input type="checkbox" class=${className} .checked=${isChecked} ?disabled=${isDisabled}
    @change=${({ target }) => store.set(change(target.checked))}> ${getLabel(name)}</label>`;
}

function drawDisplay(state, saves) {
  const { across, scale, order, opacity, view } = state;
  const isRaw = view === "Raw";
  const setOpacity = ({ target }) => store.set({ opacity: target.valueAsNumber });
  return markup`<details class="display">
    <summary>Display</summary>
    <div class="panel">
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

// A panel closes with Escape, and with a click next to it.
function addPanelListeners(bar) {
  const closePanels = (target) =>
    bar.querySelectorAll("details.display[open]").forEach((each) =>
      each.contains(target) || (each.open = false)
    );
  document.addEventListener("pointerdown", ({ target }) => closePanels(target));
  bar.addEventListener("keydown", (event) => {
    const panel = event.key === "Escape" && event.target.closest("details.display[open]");
    if (!panel) return;
    panel.open = false;
    panel.firstElementChild.focus();
  });
}

// The controls in `bar`. `choose(changes)` chooses another map, and `saves` are buttons. Return `show(trace, selection)`.
export function createControls(bar, choose, saves) {
  const show = (trace, selection) =>
    render(
      [
        drawSourceMenu(trace, selection, choose),
        drawRolloutSettings(selection, trace.layers),
        drawDirections(selection),
        drawDisplay(selection, saves),
      ],
      bar,
    );
  addPanelListeners(bar);
  show({ heads: 0, layers: 1 }, store.state); // so that the first map does not move the layout
  return show;
}
