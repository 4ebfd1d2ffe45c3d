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

const EMBEDDING = "lens.embedding"; // state key: whether the input of the first layer is shown, not the page's layer
const APPROXIMATE = "Approximate";
const ABOUT =
  "The final LayerNorm and the classifier head were trained only on the output of the last layer, so the other columns are approximations. The class of a patch token is not a label of the patch, because each token contains information from other patches. A classifier head for the class token was not trained on patch tokens.";

function describeStrip({ classes, total }) {
  const rest = classes.length < total
    ? ` The ${classes.length} most probable of ${total} classes are shown.`
    : "";
  return `The classifier head is applied to the tokens after each layer. The last column is the model's prediction. Click a layer number to choose the layer.${rest}`;
}

const describeLayer = (layer) => (layer ? `after layer ${layer}` : "before the first layer");

function drawStrip({ answers, classes }, layer, choose) {
  const columns = answers.map((_, i) => ({
    text: i,
    label: `${i ? `After layer ${i}` : "Layer 0, before the first layer"}: show the classes of the patches`,
    pick: String(i),
    pressed: i === layer,
  }));
  const makeCell = (share, name, i) => ({
    text: (100 * share).toFixed(0),
    label: `${i ? `After layer ${i}` : "Before the first layer"}: ${name} ${formatProbability(share)}`,
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
    caption: `Predicted class of each patch, ${describeLayer(layer)}`,
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
    const text = ` ${name}: ${count} of ${rows * columns}`;
    return markup`<li><i style=${formatCellStyle(parseHex(colour))}>${short}</i>${text}</li>`;
  });
  const numbers = makeRows((p) => `${predicted[p].name} ${(100 * shares[p]).toFixed(1)}`);
  return markup`<div id="lens-patches">
    ${drawCaption("The same classifier head is applied to each patch token.", APPROXIMATE)}
    <div class="vd-pair">${figure}${map}</div>
    <ul class="classes">${legend}</ul>
    ${drawFoldedGrid("Class and probability of each patch, in percent", "row", numbers)}
  </div>`;
}

function create(element) {
  let shown = null; // the page's layer in the last drawing

  function choose(layer) {
    store.set({ [EMBEDDING]: !layer });
    if (layer) store.chooseLayer(layer);
  }

  function render(data, state) {
    const isOtherLayer = shown !== null && shown !== state.layer;
    shown = state.layer;
    if (isOtherLayer && state[EMBEDDING]) return store.set({ [EMBEDDING]: false }); // which draws again
    const last = data.answers.length - 1;
    const layer = state[EMBEDDING] ? 0 : Math.min(state.layer || last, last);
    draw(
      markup`${drawCaption(describeStrip(data), APPROXIMATE)}${drawStrip(data, layer, choose)}${
        drawPatches(data, layer)
      }${drawAbout(ABOUT)}`,
      element,
    );
  }

  return { render };
}

store.define("logit_lens", { skeleton: "rows", follows: ["layer", EMBEDDING], create });
