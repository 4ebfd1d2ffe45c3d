// Head ablation: a button for each head, coloured by its effect on the prediction; a pressed button means "off".
// `state.heads_off` lists the heads that are off, such as "3.1 4.2" (layer.head, from 1).
import { createDocument } from "../../../components/documents.js";
import {
  drawAbout,
  drawCaption,
  drawFoldedTable,
  drawGrid,
  drawScale,
  formatSigned,
} from "../../../components/grid.js";
import {
  drawActionButton,
  drawMarkdown,
  drawNotice,
  findLargest,
  formatProbability,
  getColour,
} from "../../../components/shared.js";
import { createTaskPanel } from "../../../components/task_panel.js";
import { makeElement, markup, render as draw } from "../../../markup.js";
import * as store from "../../../store.js";
import { formatNumber } from "../../../texts.js";

// --- the heads that are off, which belong to a model ---

const switchOff = (off) => store.set({ heads_off: off }); // switch all other heads on

// Parse the heads in a text, in order; ignore heads that do not exist.
function parseHeads({ change }, text) {
  const found = text.split(/\s+/).map((word) => /^(\d{1,4})\.(\d{1,4})$/.exec(word)?.slice(1).map(Number));
  const known = found.filter((head) => head && change[head[0] - 1]?.[head[1] - 1] !== undefined);
  return new Set(known.sort((a, b) => a[0] - b[0] || a[1] - b[1]).map((head) => head.join(".")));
}

function toggle(value, pick) {
  if (value.run !== store.state.model) return; // the grid of the chosen model has not arrived
  const heads = parseHeads(value, store.state.heads_off);
  if (!heads.delete(pick)) heads.add(pick);
  switchOff([...parseHeads(value, [...heads].join(" "))].join(" "));
}

// --- the grid of effects ---

function drawHeadGrid(data, heads) {
  const { name, change, probability } = data;
  const limit = findLargest(change.flat());
  const makeCell = (effect, l, h) => {
    const pick = `${l + 1}.${h + 1}`;
    const [isOff, logit] = [heads.has(pick), formatSigned(effect)];
    return {
      text: isOff ? "off" : logit,
      pick,
      pressed: isOff,
      label: `Layer ${l + 1}, head ${h + 1}, ${
        isOff ? "off" : "on"
      }. Effect of switching off only this head: logit of ${name} ${logit}, probability ${
        formatSigned(100 * probability[l][h], 1)
      } percentage points`,
      rgb: getColour(limit > 0 ? (1 - effect / limit) / 2 : 0.5), // the head supports the class if the logit drops without the head
    };
  };
  const rows = change.map((line, l) => ({
    name: `layer ${l + 1}`,
    cells: line.map((effect, h) => makeCell(effect, l, h)),
  }));
  const columns = change[0].map((_, h) => ({ text: h + 1, label: `Head ${h + 1}` }));
  return [
    drawGrid(
      { caption: "", corner: "", columns, rows, look: "vd-heads" },
      (pick) => toggle(data, pick),
    ),
    drawScale(formatSigned(-limit), formatSigned(limit), "", true),
  ];
}

// The limits of the effects, with the replacement of a head's output.
function describeReplacement({ mean_source: source }) {
  const replacement = source
    ? `The output of a head that is off is replaced by its mean over ${source}. Mean ablation removes only the part of the output that depends on the image.`
    : "The output of a head that is off is replaced by zeros. Zero ablation also removes the part of the output that is the same for every image.";
  return `A head without an effect may still be important, because other heads can compensate for it. ${replacement}`;
}

function renderEffects(element, data, state) {
  const { change, name, probability } = data;
  const makeRow = (line, l) => [String(l + 1), ...line.map((each) => formatSigned(100 * each))];
  draw(
    markup`${
      drawCaption(
        `Change of the logit of ${name} without this head. Orange heads support the class, purple heads oppose it.`,
      )
    }${drawHeadGrid(data, parseHeads(data, state.heads_off))}${
      drawFoldedTable(
        `Effect of each head on the probability of ${name}, in percentage points`,
        ["layer", ...change[0].map((_, h) => `head ${h + 1}`)],
        probability.map(makeRow),
      )
    }${drawAbout(describeReplacement(data))}`,
    element,
  );
}

// --- the prediction without the heads ---

const MAX_LISTED = 6; // heads in a sentence

function listHeads(heads) {
  const names = heads.slice(0, MAX_LISTED).map(([layer, head]) => `layer ${layer} head ${head}`).join(", ");
  return heads.length > MAX_LISTED ? `${names} and ${heads.length - MAX_LISTED} more` : names;
}

// Blocks of a document that compare the probabilities with all heads and without some heads.
function describeComparison({ run, heads, predicted: [first, name], classes, before, now }) {
  const [full, rest] = [before, now].map((shares) => formatProbability(shares[classes.indexOf(name)]));
  const text = `${run} ${
    name === first ? "still" : "now"
  } predicts ${name} (${rest}; with all heads ${full}).`;
  return [
    ...(heads.length ? [{ kind: "Text", text, told: true }] : []),
    {
      kind: "ProbabilityChange",
      title: heads.length ? `Without ${listHeads(heads)}` : "All heads are on",
      classes,
      before,
      now,
      heads: ["all heads", "without"],
    },
  ];
}

function createComparison(element) {
  element.classList.add("article");
  const drawBlocks = createDocument(element);
  return {
    render: (data) => drawBlocks(describeComparison(data)),
    showError: () => drawBlocks([]), // the grid shows the same error
  };
}

// --- the accuracy without the heads ---

const TASK = "head_ablation.accuracy";

// The accuracies of a model with all heads and without `heads`, and the significance of the change. The text contains
// model and heads, because the user may have made other choices since.
export function describeAccuracies({ run, heads, images, accuracies, change, interval: [low, high] }) {
  const [before, after] = accuracies.map(formatProbability);
  const [points, from, to] = [change, low, high].map((share) => formatSigned(100 * share, 1));
  const verdict = low <= 0 && high >= 0
    ? "The interval contains 0: the change is not significant."
    : `The interval excludes 0: the ${change < 0 ? "loss" : "gain"} is significant.`;
  return `${run}, accuracy on ${
    formatNumber(images)
  } test images: **${before}** with all heads, **${after}** without ${
    listHeads(heads)
  }. Change: ${points} percentage points, 95% confidence interval ${from} to ${to}. ${verdict}`;
}

const drawEnd = ({ data, error }) =>
  data
    ? markup`<p role="status">${drawMarkdown(describeAccuracies(data))}</p>`
    : drawNotice(error ?? "The measurement was cancelled.");
const starts = [{ id: "measure-accuracy", text: "Measure accuracy on test images", task: TASK }];
const panel = createTaskPanel({ starts, unit: "predictions", getWatched: () => ["model"], drawEnd });
panel.buttons.prepend(makeElement(drawActionButton("Switch all heads on", () => switchOff(""))));

store.define("head_ablation", { skeleton: "tiles", follows: ["heads_off"], render: renderEffects });
store.define("head_ablation.comparison", { create: createComparison });
store.define(TASK, {
  render: (element) => draw([panel.buttons, panel.progress], element),
});
store.watch(["model"], (_state, changes) => {
  if (!("heads_off" in changes)) switchOff(""); // the user chose another model
});
