// The attention to the changed image, next to the attention to the original image.
import { describePeak, drawMapRow } from "../../components/maps.js";
import { drawNotice } from "../../components/shared.js";
import { render as draw } from "../../markup.js";
import * as store from "../../store.js";
import { getChosenLayer, sendRanking } from "./removal.js";

const TITLES = {
  mean: (layer) => `Mean of the heads, layer ${layer}`,
  rollout: (layer) => (layer > 1 ? `Rollout, layers 1 to ${layer}` : `Rollout, layer ${layer}`),
};

function makePanel({ maps, seen, which }, ranking, run, layer) {
  const [title, values] = [TITLES[ranking](layer) + which, maps[ranking][layer - 1]];
  const lines = [`strongest patch in ${describePeak(values)}`];
  return { title, values, seen, alt: `${run}: ${title}`, lines, fraction: true };
}

function render(element, data) {
  const { images, reader, run } = data;
  const layer = getChosenLayer(data);
  const intro =
    `Attention of ${run} to the current image. Bright patches receive the most attention from ${reader}.`;
  const panels = Object.keys(TITLES).flatMap((ranking) =>
    images.map((each) => makePanel(each, ranking, run, layer))
  );
  draw(drawMapRow({ intro, panels }), element);
  sendRanking({ data });
}

function showError(element, error) {
  draw(drawNotice(error), element);
  sendRanking({ error });
}

store.define("changed_attention", { follows: ["layer"], render, showError });
