// The settings of attention rollout, in a fold next to the menu of maps. Their state keys are FIELDS.
import { make } from "../../components/shared.js";
import * as store from "../../store.js";
import { fill, TEXTS } from "../../texts.js";

const texts = TEXTS.attention_maps;
const FUSIONS = { mean: texts.fusion_mean, max: texts.fusion_max, min: texts.fusion_min };
const MAX_DISCARD = 0.95;
const number = (low, high) =>
(
  text,
) => (text.trim() && Number(text) >= low && Number(text) <= high ? Number(text) : undefined);
const FIELDS = {
  fusion: { start: "mean", parse: (text) => (text in FUSIONS ? text : undefined) },
  discard: { start: 0, parse: number(0, MAX_DISCARD) },
  first: { start: 1, parse: number(1, 999) },
  residual: { start: true, parse: (text) => ({ true: true, false: false })[text] },
};
for (const [name, param] of Object.entries(FIELDS)) store.defineParam(name, param);

// Return the `fold`, and `show(state, layers)`, which updates it.
export function rolloutSettings() {
  const help = (text) => make("small", { text });
  const radios = Object.entries(FUSIONS).map(([value, text]) => {
    const radio = make("input", { type: "radio", name: "fusion", value });
    radio.addEventListener("change", () => store.set({ fusion: value }));
    return [radio, make("label", {}, radio, ` ${text}`)];
  });
  const fusion = make(
    "fieldset",
    { id: "fusion" },
    make("legend", { text: texts.combine_heads }),
    ...radios.map(([, label]) => label),
    help(texts.combine_heads_help),
  );
  const discard = make("input", { type: "range", min: 0, max: MAX_DISCARD, step: 0.05 });
  const share = make("output");
  const first = make("input", { type: "number", min: 1, step: 1 });
  const residual = make("input", { type: "checkbox" });
  const showShare =
    () => (share.textContent = fill(texts.percent, { percent: Math.round(100 * discard.value) }));

  discard.addEventListener("input", showShare);
  discard.addEventListener("change", () => store.set({ discard: Number(discard.value) }));
  first.addEventListener("change", () => {
    store.set({ first: Math.min(Math.max(Math.round(Number(first.value)) || 1, 1), Number(first.max)) });
    first.value = store.state.first;
  });
  residual.addEventListener("change", () => store.set({ residual: residual.checked }));

  const fold = make(
    "details",
    { className: "display", id: "rollout-settings" },
    make("summary", { text: texts.rollout_settings }),
    make(
      "div",
      { className: "panel" },
      fusion,
      make(
        "label",
        { id: "discard" },
        texts.discard_ratio,
        " ",
        share,
        discard,
        help(texts.discard_ratio_help),
      ),
      make("label", { id: "first-layer" }, texts.first_layer, " ", first),
      make("label", { id: "residual" }, residual, ` ${texts.residual} `, help(texts.residual_help)),
    ),
  );

  function show(state, layers) {
    fold.hidden = state.of !== "rollout";
    for (const [radio] of radios) radio.checked = radio.value === state.fusion;
    discard.value = state.discard;
    first.max = layers;
    if (document.activeElement !== first) first.value = Math.min(state.first, layers);
    residual.checked = state.residual;
    showShare();
  }
  return { fold, show };
}

export const ROLLOUT_FIELDS = Object.keys(FIELDS);
