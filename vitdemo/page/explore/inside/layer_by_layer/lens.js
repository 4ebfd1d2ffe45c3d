// The logit lens: predictions after each layer, and the class of each patch after one layer.
import {
  drawCaption,
  drawFoldedGrid,
  drawGrid,
  formatCellStyle,
  parseHex,
} from "../../../components/grid.js";
import { formatProbability, getColour, makeRange } from "../../../components/shared.js";
import { markup } from "../../../markup.js";

const APPROXIMATE = "Approximate";
const NAMED = 8; // columns; the cells of a wider grid have no room for a name
const describeLayer = (layer) => (layer ? `after layer ${layer}` : "before the first layer");

function describeLens({ classes, total }) {
  const rest = classes.length < total ? ` (${classes.length} of ${total} classes)` : "";
  return `Probability of each class after each layer, in percent${rest}`;
}

// The probabilities as a table with a column per layer, whose number chooses the layer.
export function drawLens(lens, layer, choose) {
  const { answers, classes } = lens;
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
  const caption = markup`<b class="vd-badge">${APPROXIMATE}</b> ${describeLens(lens)}`;
  return drawGrid(
    { caption, corner: "layer", columns, rows, look: "vd-strip" },
    (pick) => choose(Number(pick)),
  );
}

const listPatches = ({ named, predicted, shares }, layer) =>
  predicted[layer].map((c, p) => ({
    name: named.names[c],
    short: named.short[c],
    colour: named.colours[c],
    share: shares[layer][p],
  }));

const makePatchRows = ([rows, columns], make) =>
  makeRange(rows, (i) => makeRange(columns, (j) => make(i * columns + j, i + 1, j + 1)));

function countClasses(patches) {
  const counts = new Map();
  for (const { name } of patches) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a);
}

export function drawPatches(lens, run, layer) {
  const [rows, columns] = lens.grid;
  const patches = listPatches(lens, layer);
  const makeCell = (p, row, column) => ({
    text: columns <= NAMED ? patches[p].short : "",
    rgb: parseHex(patches[p].colour),
    label: `Row ${row}, column ${column}: ${patches[p].name} ${formatProbability(patches[p].share)}`,
  });
  const map = drawGrid({
    caption: "",
    rows: makePatchRows(lens.grid, makeCell).map((cells) => ({ cells })),
    look: "vd-patches",
    style: `--columns: ${columns}`,
  });
  const seen =
    markup`<div class="seen" style="--rows: ${rows}; --columns: ${columns}"><img src=${lens.seen.url}
    alt="The input image of ${run}, divided into patches"></div>`;
  const drawEntry = ([name, count]) => {
    const { colour, short } = patches.find((patch) => patch.name === name);
    const text = ` ${name}: ${count} of ${rows * columns}`;
    return markup`<li><i style=${formatCellStyle(parseHex(colour))}>${short}</i>${text}</li>`;
  };
  return markup`<div id="lens-patches">
    ${drawCaption(`Class of each patch ${describeLayer(layer)}`, APPROXIMATE)}
    <div class="vd-pair"><figure>${seen}</figure>${map}</div>
    <ul class="classes">${countClasses(patches).map(drawEntry)}</ul>
  </div>`;
}

export function drawPatchTable(lens, layer) {
  const patches = listPatches(lens, layer);
  const lines = makePatchRows(
    lens.grid,
    (p) => `${patches[p].name} ${(100 * patches[p].share).toFixed(1)}`,
  );
  return drawFoldedGrid("Class and probability of each patch, in percent", "row", lines);
}
