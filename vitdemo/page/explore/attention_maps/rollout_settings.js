// The settings of attention rollout, in a fold next to the menu of maps.
import { markup } from "../../markup.js";
import * as store from "../../store.js";

const FUSIONS = store.getLabels("fusion");
const { fusion: FUSION, discard: DISCARD, first_layer: FIRST_LAYER, residual: RESIDUAL } = store.keys;

const formatPercent = (discard) => `${Math.round(100 * discard)}%`;

function drawFusion(value, state) {
  return markup`<label><input type="radio" name="fusion" value=${value} .checked=${value === state.fusion}
    @change=${() => store.set({ fusion: value })}> ${FUSIONS[value]}</label>`;
}

function showShare({ target }) {
  target.previousElementSibling.value = formatPercent(target.value);
}

// Limit the entered number to the layers of the model.
function setFirstLayer({ target }) {
  store.set({
    first_layer: Math.min(Math.max(Math.round(Number(target.value)) || 1, 1), Number(target.max)),
  });
  target.value = store.state.first_layer; // the template does not replace the entry if this is the layer it has drawn
}

export const drawRolloutSettings = (state, layers) =>
  markup`<details class="display" id="rollout-settings" ?hidden=${state.source !== "rollout"}>
    <summary>Rollout settings</summary>
    <div class="panel">
      <fieldset id="fusion">
        <legend>${FUSION.label}</legend>
        ${Object.keys(FUSIONS).map((value) => drawFusion(value, state))}
        <small>${FUSION.help}</small>
      </fieldset>
      <label id="discard">${DISCARD.label} <output .value=${formatPercent(state.discard)}></output><input
        type="range" min=${DISCARD.low} max=${DISCARD.high} step=${DISCARD.step} .value=${state.discard} @input=${showShare}
        @change=${({ target }) =>
    store.set({ discard: Number(target.value) })}><small>${DISCARD.help}</small></label>
      <label id="first-layer">${FIRST_LAYER.label} <input type="number" min="1" max=${layers} step="1"
        .value=${Math.min(state.first_layer, layers)} @change=${setFirstLayer}></label>
      <label id="residual"><input type="checkbox" .checked=${state.residual}
        @change=${({ target }) =>
    store.set({ residual: target.checked })}> ${RESIDUAL.label} <small>${RESIDUAL.help}</small></label>
    </div>
  </details>`;
