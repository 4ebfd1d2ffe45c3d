// Accuracy of linear probes after each layer, next to the accuracy of the logit lens. The results of the included models
// are stored; a task computes those of other models.
import { drawAbout, drawCaption, drawFoldedTable } from "../../../components/grid.js";
import { createLinePlots } from "../../../components/line_plots.js";
import { formatProbability, makeRange } from "../../../components/shared.js";
import { createTaskPanel } from "../../../components/task_panel.js";
import { makeElement, markup, nothing, render as draw } from "../../../markup.js";
import * as store from "../../../store.js";
import { formatNumber } from "../../../texts.js";
import { drawCurveLegend, makeLayerPlots } from "../shared.js";

const VIEW = "linear_probes"; // also the name of its task
const [LENS, TOKEN, PATCHES] = ["logit lens", "class token", "mean of the patches"];
const CURVES = {
  [TOKEN]: { name: "probe on the class token", colour: "#c45f10" },
  [PATCHES]: { name: "probe on the mean of the patches", colour: "#0a78c2" },
  [LENS]: { name: "logit lens", colour: "#64748b", dashed: true },
};
const ABOUT = [
  "A linear probe (Alain & Bengio 2016) is a linear classifier of the tokens after one layer. It shows how much class information a linear classifier can read there. The logit lens shows how much of it the model's own classifier head reads.",
  "The probes are ridge regressions on standardised tokens. Most models were trained on these training images, so their tokens fit them better than new images. The accuracies are measured on test images.",
];

const listCurves = ({ accuracies }) =>
  Object.entries(accuracies).map(([name, y]) => ({ dashed: false, ...CURVES[name], y }));

// The layer with the largest difference between the best probe and the logit lens.
function describeGap({ accuracies }) {
  const lens = accuracies[LENS];
  const probe = accuracies[TOKEN] ?? accuracies[PATCHES];
  if (!lens) return "";
  const gaps = probe.map((share, layer) => share - lens[layer]);
  const layer = gaps.indexOf(Math.max(...gaps));
  const place = layer ? `After layer ${layer}` : "Before layer 1";
  const name = accuracies[TOKEN] ? CURVES[TOKEN].name : CURVES[PATCHES].name;
  return `${place}, the ${name} has an accuracy of ${formatProbability(probe[layer])}, and the logit lens ${
    formatProbability(lens[layer])
  }.`;
}

function describeProbes({ run, result }) {
  if (!result) {
    return `A probe shows how much class information the tokens of ${run} contain after each layer.`;
  }
  const images = `${formatNumber(result.test)} test images`;
  return `Accuracy on ${images} of classifiers that are fitted on the tokens of ${
    formatNumber(result.training)
  } training images. ${describeGap(result)}`;
}

function drawTable({ run, result, layers }) {
  const curves = listCurves(result);
  const rows = makeRange(
    layers + 1,
    (layer) => [String(layer), ...curves.map(({ y }) => (100 * y[layer]).toFixed(1))],
  );
  return drawFoldedTable(
    `Accuracy of ${run} by layer, in percent`,
    ["layer", ...curves.map(({ name }) => name)],
    rows,
  );
}

const makePlots = ({ run, result }) =>
  makeLayerPlots(listCurves(result), {
    title: "Accuracy by layer",
    unit: "accuracy",
    x: "layers",
    decimals: 2,
    file: `${run}-linear-probes.csv`,
  });

function create(element) {
  const starts = [{ id: "fit-probes", text: "Fit linear probes", busy: "Computing …", task: VIEW }];
  const panel = createTaskPanel({
    starts,
    unit: "images",
    cancelId: "fit-probes-stop",
    views: [VIEW],
    getWatched: () => ["model"],
  });
  const plots = makeElement(markup`<div></div>`);
  const drawPlots = createLinePlots(plots, { hasSlider: false });

  function render(data) {
    const { result } = data;
    panel.buttons.hidden = result !== null && !panel.buttons.querySelector("button").disabled;
    draw(
      markup`<h2>Linear probes</h2>${drawCaption(describeProbes(data))}${panel.buttons}${panel.progress}${
        result ? markup`${drawCurveLegend(listCurves(result))}${plots}${drawTable(data)}` : nothing
      }${drawAbout(...ABOUT)}`,
      element,
    );
    if (result) drawPlots(makePlots(data));
  }

  return { render };
}

store.define(VIEW, { skeleton: "figures", create });
