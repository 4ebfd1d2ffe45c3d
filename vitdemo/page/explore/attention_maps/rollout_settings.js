// The settings of attention rollout, in a fold next to the menu of maps. Their state keys are FIELDS.
import { elementOf, markup, render } from "../../markup.js";
import * as store from "../../store.js";
import { fill, TEXTS } from "../../texts.js";

const texts = TEXTS.attention_maps;
const FUSIONS = { mean: texts.fusion_mean, max: texts.fusion_max, min: texts.fusion_min };
const MAX_DISCARD = 0.95;
const FIELDS = {
  fusion: { start: "mean", parse: (text) => (text in FUSIONS ? text : undefined) },
  discard: { start: 0, parse: store.parseNumber(0, MAX_DISCARD) },
  first: { start: 1, parse: store.parseNumber(1, 999) },
  residual: { start: true, parse: store.parseFlag },
};
for (const [name, param] of Object.entries(FIELDS)) store.defineParam(name, param);

const percentOf = (discard) => fill(texts.percent, { percent: Math.round(100 * discard) });

function fusion(value, state) {
  return markup`<label><input type="radio" name="fusion" value=${value} .checked=${value === state.fusion}
    @change=${() => store.set({ fusion: value })}> ${FUSIONS[value]}</label>`;
}

function showShare({ target }) {
  target.previousElementSibling.value = percentOf(target.value);
}

// Limit the entered number to the layers of the model.
function setFirst({ target }) {
  store.set({ first: Math.min(Math.max(Math.round(Number(target.value)) || 1, 1), Number(target.max)) });
  target.value = store.state.first; // the template does not replace the entry if this is the layer it has drawn
}

const settings = (state, layers) =>
  markup`<summary>${texts.rollout_settings}</summary>
    <div class="panel">
      <fieldset id="fusion">
        <legend>${texts.combine_heads}</legend>
        ${Object.keys(FUSIONS).map((value) => fusion(value, state))}
        <small>${texts.combine_heads_help}</small>
      </fieldset>
      <label id="discard">${texts.discard_ratio} <output .value=${percentOf(state.discard)}></output><input
        type="range" min="0" max=${MAX_DISCARD} step="0.05" .value=${state.discard} @input=${showShare}
        @change=${({ target }) =>
    store.set({ discard: Number(target.value) })}><small>${texts.discard_ratio_help}</small></label>
      <label id="first-layer">${texts.first_layer} <input type="number" min="1" max=${layers} step="1"
        .value=${Math.min(state.first, layers)} @change=${setFirst}></label>
      <label id="residual"><input type="checkbox" .checked=${state.residual}
        @change=${({ target }) =>
    store.set({ residual: target.checked })}> ${texts.residual} <small>${texts.residual_help}</small></label>
    </div>`;

// Return the `fold`, and `show(state, layers)`, which updates it.
export function rolloutSettings() {
  const fold = elementOf(markup`<details class="display" id="rollout-settings" hidden></details>`);
  function show(state, layers) {
    fold.hidden = state.of !== "rollout";
    render(settings(state, layers), fold);
  }
  return { fold, show };
}

export const ROLLOUT_FIELDS = Object.keys(FIELDS);
