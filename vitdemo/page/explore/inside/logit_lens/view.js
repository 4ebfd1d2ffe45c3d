// Predictions after each layer, and the class of each patch after the chosen layer. A change of the
// layer needs no request.
import {
  drawAbout,
  drawCaption,
  drawFoldedGrid,
  drawGrid,
  formatCellStyle,
  parseHex,
} from "../../../components/grid.js";
import { formatProbability, getColour, makeRange } from "../../../components/shared.js";
import { markup, render as draw } from "../../../markup.js";
import * as store from "../../../store.js";
import { fill } from "../../../texts.js";

const APPROXIMATE = "Approximate";
// The text `after` for a layer, or `before` for the input of the first layer.
const describeLayer = (layer, after, before, values = {}) =>
  fill(layer ? after : before, { layer, ...values });
let drawnLayer = null;

function drawStrip({ answers, classes }, layer, choose) {
  const columns = answers.map((_, i) => ({
    text: i,
    label: describeLayer(
      i,
      "After layer {layer}: show the classes of the patches",
      "Layer 0, before the first layer: show the classes of the patches",
    ),
    pick: String(i),
    pressed: i === layer,
  }));
  const makeCell = (share, name, i) => ({
    text: (100 * share).toFixed(0),
    label: describeLayer(
      i,
      "After layer {layer}: {name} {probability}",
      "Before the first layer: {name} {probability}",
      { name, probability: formatProbability(share) },
    ),
    rgb: getColour(share, false),
  });
  const rows = classes.map((name, c) => ({
    name,
    cells: answers.map((shares, i) => makeCell(shares[c], name, i)),
  }));
  return drawGrid(
    {
      caption: "Probability of each class after each layer, in percent",
      corner: "layer",
      columns,
      rows,
      look: "vd-strip",
    },
    (pick) => choose(Number(pick)),
  );
}

function drawPatches(value, layer) {
  const [rows, columns] = value.grid;
  const [predicted, shares] = [value.predicted[layer].map((c) => value.named[c]), value.shares[layer]];
  const makeRows = (each) =>
    makeRange(rows, (i) => makeRange(columns, (j) => each(i * columns + j, i + 1, j + 1)));
  const makeCell = (p, row, column) => ({
    text: predicted[p].short,
    rgb: parseHex(predicted[p].colour),
    label: `Row ${row}, column ${column}: ${predicted[p].name} ${formatProbability(shares[p])}`,
  });
  const map = drawGrid({
    caption: describeLayer(
      layer,
      "Predicted class of each patch, after layer {layer}",
      "Predicted class of each patch, before the first layer",
    ),
    rows: makeRows(makeCell).map((cells) => ({ cells })),
    look: "vd-patches",
    style: `--columns: ${columns}`,
  });
  const seen =
    markup`<div class="seen" style="--rows: ${rows}; --columns: ${columns}"><img src=${value.seen.url}
    alt="The input image of ${value.run}, divided into patches"></div>`;
  const figure = markup`<figure>${seen}<figcaption>Input image of ${value.run}</figcaption></figure>`;
  const counts = new Map();
  for (const each of predicted) counts.set(each, (counts.get(each) ?? 0) + 1);
  const legend = [...counts].sort(([, a], [, b]) => b - a).map(([{ name, short, colour }, count]) => {
    const words = ` ${name}: ${count} of ${rows * columns}`;
    return markup`<li><i style=${formatCellStyle(parseHex(colour))}>${short}</i>${words}</li>`;
  });
  const numbers = makeRows((p) => `${predicted[p].name} ${(100 * shares[p]).toFixed(1)}`);
  return markup`<div id="lens-patches">
    ${drawCaption(value.captions[1], APPROXIMATE)}
    <div class="vd-pair">${figure}${map}</div>
    <ul class="classes">${legend}</ul>
    ${drawFoldedGrid("Class and probability of each patch, in percent", "row", numbers)}
  </div>`;
}

let isBeforeFirst = false; // whether the embedding is shown, which is not on the page's slider

store.define("logit_lens", {
  skeleton: "rows",
  follows: ["layer"],
  render(element, value, state) {
    const choose = (layer) => {
      if (layer) store.chooseLayer(layer);
      isBeforeFirst = !layer;
      this.render(element, value, store.state);
    };
    if (state.layer !== drawnLayer) isBeforeFirst = false;
    drawnLayer = state.layer;
    const last = value.answers.length - 1;
    const layer = isBeforeFirst ? 0 : Math.min(state.layer || last, last);
    draw(
      markup`${drawCaption(value.captions[0], APPROXIMATE)}${drawStrip(value, layer, choose)}${
        drawPatches(value, layer)
      }${drawAbout(value.about)}`,
      element,
    );
  },
});
