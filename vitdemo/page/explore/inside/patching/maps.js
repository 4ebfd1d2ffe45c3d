// For each layer, a small map: how far the logit difference of the two classes moves to image 2 if a patch, or a group of
// patches, is replaced after this layer. Below are curves for the class token, all patches, and random patches. A task
// computes all shares.
import {
  drawAbout,
  drawCaption,
  drawFoldedTable,
  drawScale,
  formatSigned,
} from "../../../components/grid.js";
import { createLinePlots } from "../../../components/line_plots.js";
import { createRoving, drawValues, findLargest, makeCanvas, makeRange } from "../../../components/shared.js";
import { createQuickStart, createTaskPanel } from "../../../components/task_panel.js";
import { makeElement, markup, nothing, render as draw } from "../../../markup.js";
import * as store from "../../../store.js";
import { drawCurveLegend, makeLayerPlots } from "../shared.js";

const VIEW = "patching.maps";
const LAYER = "patching.layer";
const COLOURS = { "class token": "#c45f10", "special tokens": "#a2559a", patches: "#0a78c2" }; // as in curves.py
const RANDOM_COLOUR = "#64748b";
const ABOUT = [
  "Activation patching (Vig et al. 2020), also called interchange intervention (Geiger et al. 2021): after a layer, tokens of image 1 are replaced by the tokens of image 2 at the same places. The remaining layers then run as usual.",
  "The share is the normalised logit difference (Zhang & Nanda 2024): the difference of the logits of the two predicted classes is as for image 1 at 0, and as for image 2 at 1. A share can be below 0 or above 1.",
  "Only tokens at the same places are exchanged, so the result holds for this pair of images. After each layer, a token contains more information from other patches. A mixture of two images is an unusual input, and may cause part of the effect. If single patches have small shares, the information is spread over many patches.",
];

const describeGroup = (side) => (side > 1 ? `${side} × ${side} patches` : "one patch");

// The name of the curve of all special tokens; undefined if the model has none.
const findSpecial = (curves) => Object.keys(curves).findLast((name) => name !== "patches");

// The layer from which on the special tokens have a larger share than all patches.
function describeHandOver({ curves }) {
  const name = findSpecial(curves);
  const last = name ? curves[name].findLastIndex((share, layer) => share <= curves.patches[layer]) : -1;
  if (last < 0 || last === curves.patches.length - 1) return "";
  const verb = name === "class token" ? "has" : "have";
  return `From layer ${last + 1} on, the ${name} ${verb} a larger share than all patches together.`;
}

function describeLargest({ maps, side }) {
  const largest = maps.flat(2).reduce((top, share) => (Math.abs(share) > Math.abs(top) ? share : top), 0);
  return `Largest share of ${describeGroup(side)}: ${formatSigned(largest)}.`;
}

// --- the small maps ---

function drawMap({ result }, layer, limit, chosen) {
  const canvas = makeCanvas(1, 1);
  const map = result?.maps[layer];
  if (map) drawValues(canvas, map.flat(), [map.length, map[0].length], { top: limit, signed: true });
  const name = layer ? `After layer ${layer}` : "Before layer 1";
  const largest = map ? `, largest share ${formatSigned(Math.max(...map.flat()))}` : "";
  return markup`<button type="button" data-pick=${layer} aria-pressed=${
    String(layer === chosen)
  } aria-label="${name}${largest}" title="${name}${largest}" tabindex=${
    layer === chosen ? 0 : -1
  } @click=${() => store.set({ [LAYER]: layer })}>${map ? canvas : nothing}<small>${layer}</small></button>`;
}

function drawMaps(data, chosen) {
  const limit = data.result ? findLargest(data.result.maps.flat(2)) : 0;
  const keys = createRoving(
    (all) => all.filter(({ offsetTop }) => offsetTop === all[0].offsetTop).length,
    true,
  );
  const maps = makeRange(data.layers + 1, (layer) => drawMap(data, layer, limit, chosen));
  return markup`<div class="layers" role="group" aria-label="Layer after which tokens are replaced" @focusin=${keys.focus} @keydown=${keys.press}>${maps}</div>${
    data.result
      ? drawScale(
        formatSigned(-limit),
        formatSigned(limit),
        ` share of ${describeGroup(data.result.side)}, replaced after this layer`,
      )
      : nothing
  }`;
}

// --- the curves ---

function listCurves({ curves, random }) {
  const names = { patches: "all patches" };
  const found = Object.entries(curves).map(([name, y]) => ({
    name: names[name] ?? name,
    y,
    colour: COLOURS[name],
    dashed: false,
  }));
  return [...found, { name: "random half of the patches", y: random, colour: RANDOM_COLOUR, dashed: true }];
}

const makePlots = ({ run, result }) =>
  makeLayerPlots(listCurves(result), {
    title: "Share by layer of the replacement",
    unit: "share",
    x: "layers before the replacement",
    decimals: 2,
    file: `${run}-patching.csv`,
  });

function drawTable({ result }) {
  const curves = listCurves(result);
  const rows = makeRange(result.random.length, (layer) => {
    const map = result.maps[layer].flat();
    const ends = [Math.min(...map), Math.max(...map)];
    return [String(layer), ...[...curves.map(({ y }) => y[layer]), ...ends].map((each) => each.toFixed(3))];
  });
  const group = describeGroup(result.side);
  const head = ["layer", ...curves.map(({ name }) => name), `${group}, lowest`, `${group}, highest`];
  return drawFoldedTable("Share by layer", head, rows);
}

// --- the view ---

function create(element) {
  const starts = [{ id: "compute-patching", text: "Compute maps", busy: "Computing …", task: VIEW }];
  const getWatched = () => store.listNeeds([VIEW]);
  const panel = createTaskPanel({ starts, unit: "passes", views: [VIEW], getWatched });
  const startSoon = createQuickStart(panel.buttons.querySelector("button"));
  const plots = makeElement(markup`<div></div>`);
  const drawPlots = createLinePlots(plots, { hasSlider: false });
  let drawn = null; // the payload of the drawn curves

  function render(data, state) {
    const { layers, result } = data;
    const button = panel.buttons.querySelector("button");
    panel.buttons.hidden = result && !button.disabled;
    draw(
      markup`${panel.buttons}${panel.progress}${
        result
          ? drawCaption(`${describeHandOver(result)} ${describeLargest(result)}`)
          : drawCaption("Each map shows how far a replaced patch moves the logits towards image 2, by layer.")
      }${drawMaps(data, Math.min(state[LAYER], layers))}${
        result ? markup`${drawCurveLegend(listCurves(result))}${plots}${drawTable(data)}` : nothing
      }${drawAbout(...ABOUT)}`,
      element,
    );
    if (result && drawn !== data) drawPlots(makePlots(data));
    drawn = data;
    startSoon(JSON.stringify(getWatched().map((name) => state[name])), data.is_quick && !result);
  }

  return { render };
}

store.define(VIEW, { skeleton: "tiles", follows: [LAYER], create });
