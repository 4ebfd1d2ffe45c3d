// The test images with the patches most similar to the chosen patch, after the chosen layer. A task computes the tokens
// of the test images once for each layer. A click on an image opens it in Explore.
import { drawAbout, drawCaption } from "../../../components/grid.js";
import { createRoving, formatPatchStyle, formatSheetStyle } from "../../../components/shared.js";
import { createQuickStart, createTaskPanel } from "../../../components/task_panel.js";
import { markup, nothing, render as draw } from "../../../markup.js";
import * as store from "../../../store.js";
import { fillPlural, formatNumber } from "../../../texts.js";

const VIEW = "similar_patches"; // also the name of its task
const NO_PATCH = "Click a patch of the image to find similar patches in the test set.";
const ABOUT = [
  "The similarity is the cosine between the tokens of two patches after the chosen layer. Only the most similar patch of each test image is shown, and not the image in Explore itself.",
  "A token also contains the position of its patch, and information from other patches. Therefore, similar tokens do not always belong to patches that look alike.",
];

const formatImages = (count) =>
  fillPlural(count, "{count} test image", "{count} test images", { count: formatNumber(count) });

function openImage({ source, ...others }, number) {
  store.openImage({ ...others, image: { source: `${source}${number}`, path: null, at: 0.5 } });
}

function describeChoice({ patch, layer, images, found, run }) {
  if (!patch) return NO_PATCH;
  const name = `the patch in row ${patch[0]}, column ${patch[1]}`;
  if (found) {
    return `Most similar patches to ${name} among ${formatImages(images)}, after layer ${layer} of ${run}.`;
  }
  return `To find patches similar to ${name}, the tokens of ${
    formatImages(images)
  } after layer ${layer} are computed once.`;
}

function drawImage(data, { number, label, cosine, patch: [row, column] }, at) {
  const { found, sheet, grid, open } = data;
  const style = formatPatchStyle((row - 1) * grid[1] + column - 1, grid);
  const spoken = `${label}, test image ${number}: row ${row}, column ${column}, cosine ${
    cosine.toFixed(3)
  }. Open in Explore.`;
  return markup`<figure><button type="button" data-pick=${number} aria-label=${spoken} title=${spoken} tabindex=${
    at ? -1 : 0
  } style=${formatSheetStyle(sheet, at, found.length)} @click=${() =>
    openImage(open, number)}><i style=${style}></i>
    </button><figcaption>${label} <small>${cosine.toFixed(2)}</small></figcaption></figure>`;
}

function drawFound(data) {
  const keys = createRoving(
    (all) => all.filter(({ offsetTop }) => offsetTop === all[0].offsetTop).length,
    true,
  );
  return markup`<div class="found" role="group" aria-label="Similar patches" @focusin=${keys.focus} @keydown=${keys.press}>${
    data.found.map((each, at) => drawImage(data, each, at))
  }</div>`;
}

function create(element) {
  const starts = [{
    id: "find-patches",
    text: "Find similar patches",
    busy: "Computing …",
    task: VIEW,
  }];
  const getWatched = () => ["model", "layer"];
  const panel = createTaskPanel({
    starts,
    unit: "images",
    cancelId: "find-patches-stop",
    views: [VIEW],
    getWatched,
  });
  const startSoon = createQuickStart(panel.buttons.querySelector("button"));

  function render(data, state) {
    const button = panel.buttons.querySelector("button");
    panel.buttons.hidden = (!data.patch || data.found !== null) && !button.disabled;
    draw(
      markup`<h3>Similar patches in the test set</h3>${
        drawCaption(describeChoice(data))
      }${panel.buttons}${panel.progress}${data.found ? drawFound(data) : nothing}${drawAbout(...ABOUT)}`,
      element,
    );
    const key = JSON.stringify(getWatched().map((name) => state[name]));
    startSoon(key, data.is_quick && data.patch !== null && data.found === null);
  }

  return { render };
}

store.define(VIEW, { skeleton: "tiles", create });
