// Head ablation: a button for each head, coloured by its effect on the prediction; a pressed button means "off".
// `state.heads_off` lists the heads that are off, such as "3.1 4.2" (layer.head, from 1).
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
  getColour,
} from "../../../components/shared.js";
import { createTaskPanel } from "../../../components/task_panel.js";
import { makeElement, markup, nothing, render as draw } from "../../../markup.js";
import * as store from "../../../store.js";
import { fill } from "../../../texts.js";

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

function drawHeadGrid(value, heads) {
  const { name, change, probability } = value;
  const limit = findLargest(change.flat());
  const rows = change.map((line, l) => ({
    name: `layer ${l + 1}`,
    cells: line.map((effect, h) => {
      const pick = `${l + 1}.${h + 1}`;
      const isOff = heads.has(pick);
      const numbers = {
        layer: l + 1,
        head: h + 1,
        name,
        logit: formatSigned(effect),
        points: formatSigned(100 * probability[l][h], 1),
      };
      return {
        text: isOff ? "off" : formatSigned(effect),
        pick,
        pressed: isOff,
        label: fill(
          isOff
            ? "Layer {layer}, head {head}, off. Effect of switching off only this head: logit of {name} {logit}, probability {points} percentage points"
            : "Layer {layer}, head {head}, on. Effect of switching off only this head: logit of {name} {logit}, probability {points} percentage points",
          numbers,
        ),
        rgb: getColour(limit > 0 ? (1 - effect / limit) / 2 : 0.5), // the head supports the class if the logit drops without the head
      };
    }),
  }));
  const columns = change[0].map((_, h) => ({ text: h + 1 }));
  return [
    drawGrid(
      { caption: "Columns are heads.", corner: "", columns, rows, look: "vd-heads" },
      (pick) => toggle(value, pick),
    ),
    drawScale(formatSigned(-limit), formatSigned(limit), " (change of the logit; white: no change)", true),
  ];
}

function render(element, value, state) {
  const makeRow = (line, l) => [String(l + 1), ...line.map((change) => formatSigned(100 * change))];
  const head = [
    "layer",
    ...value.change[0].map((_, h) => `head ${h + 1}`),
  ];
  draw(
    markup`${drawCaption(value.caption)}${drawHeadGrid(value, parseHeads(value, state.heads_off))}${
      drawFoldedTable(
        `Effect of each head on the probability of ${value.name}, in percentage points`,
        head,
        value.probability.map(makeRow),
      )
    }${drawAbout(value.about)}`,
    element,
  );
}

// --- the accuracy without the heads ---

const TASK = "head_ablation.accuracy";
const drawEnd = ({ data, error }) =>
  data
    ? markup`<p role="status">${drawMarkdown(data)}</p>`
    : drawNotice(error ?? "The measurement was cancelled.");
const starts = [{ id: "measure-accuracy", text: "Measure accuracy on test images", task: TASK }];
const panel = createTaskPanel({ starts, unit: "predictions", getWatched: () => ["model"], drawEnd });
panel.buttons.prepend(makeElement(drawActionButton("Switch all heads on", () => switchOff(""))));

store.define("head_ablation", {
  skeleton: "tiles",
  follows: ["heads_off"],
  render,
});
// The grid shows the same error.
store.defineDocument("head_ablation.comparison", {
  showError: (element) => draw(nothing, element),
});
store.define(TASK, {
  render: (element) => draw([panel.buttons, panel.progress], element),
});
store.watch(["model"], (_state, changes) => {
  if (!("heads_off" in changes)) switchOff(""); // the user chose another model
});
