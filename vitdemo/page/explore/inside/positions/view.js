// Similarity of position embeddings: between a chosen patch and all others, and an overview.
import {
  drawAbout,
  drawCaption,
  drawFoldedGrid,
  drawGrid,
  drawScale,
  formatSigned,
} from "../../../components/grid.js";
import { createFileView, decodeValues } from "../../../components/matrices.js";
import { drawValues, getColour } from "../../../components/shared.js";
import { markup, render } from "../../../markup.js";
import * as store from "../../../store.js";

let place = null; // the element of the view
const NUMBERED = 8; // columns; the cells of a wider grid have no room for a number
let value = {}; // the drawn payload
let similarity = null; // (P, P), from its file
let chosen = null; // the patch, as "row.column" from 0

// The patch closest to the chosen patch (the grid may have changed); initially, a central patch.
function findCell([rows, columns]) {
  const middle = [rows, columns].map((count) => Math.floor((count - 1) / 2));
  const wanted = chosen ? chosen.split(".").map(Number) : middle;
  return wanted.map((at, i) => Math.min(at, [rows, columns][i] - 1));
}

function choose(pick) {
  chosen = pick;
  draw();
}

const makeRows = (values, [rows, columns]) =>
  Array.from({ length: rows }, (_, i) => [...values.subarray(i * columns, (i + 1) * columns)]);

function drawMap() {
  const [rows, columns] = value.grid;
  const [row, column] = findCell(value.grid);
  const at = (row * columns + column) * rows * columns;
  const values = makeRows(similarity.subarray(at, at + rows * columns), value.grid);
  const computeShare = (number) => (value.limit > 0 ? (number / value.limit + 1) / 2 : 0.5);
  const cells = values.map((line, i) => ({
    cells: line.map((number, j) => ({
      text: columns <= NUMBERED ? formatSigned(number, 1) : "",
      label: `Row ${i + 1}, column ${j + 1}: ${formatSigned(number)}`,
      rgb: getColour(computeShare(number)),
      pick: `${i}.${j}`,
      pressed: i === row && j === column,
    })),
  }));
  const drawn = drawGrid({
    caption: `Row ${row + 1}, column ${column + 1}. Click another patch to choose it.`,
    rows: cells,
    look: "vd-patches",
    style: `--columns: ${columns}`,
  }, choose);
  const numbers = values.map((line) => line.map((number) => formatSigned(number)));
  return markup`<div>${drawn}${
    drawScale(
      formatSigned(-value.limit),
      formatSigned(value.limit),
      ", the largest cosine between two different patches",
    )
  }${drawFoldedGrid("Cosine similarities of the chosen patch", "row", numbers)}</div>`;
}

// The maps of all patches, each at the place of its patch, with gaps of NaN between the maps.
function drawOverview() {
  const { run, grid: [rows, columns], limit } = value;
  const [height, width] = [rows, columns].map((count) => count * (count + 1) - 1);
  const values = new Float32Array(height * width).fill(NaN);
  for (let p = 0; p < rows * columns; p++) {
    const [top, left] = [Math.floor(p / columns) * (rows + 1), (p % columns) * (columns + 1)];
    for (let q = 0; q < rows * columns; q++) {
      values[(top + Math.floor(q / columns)) * width + left + (q % columns)] =
        similarity[p * rows * columns + q];
    }
  }
  const canvas = document.createElement("canvas");
  canvas.className = "vd-whole";
  drawValues(canvas, values, [height, width], { top: limit, signed: true });
  const label =
    `${run}: for each of ${rows} by ${columns} patches, a small map of the similarity of its position embedding to all others, at the patch's own place`;
  return markup`<div class="vd-pair" id="all-positions"><figure aria-label=${label}>${canvas}<figcaption>All patches <small>one small map per patch</small></figcaption></figure></div>`;
}

function draw() {
  if (!similarity) return;
  render(
    markup`${drawCaption(value.caption)}<div class="maps">${drawMap()}${drawOverview()}</div>${
      drawAbout(value.about)
    }`,
    place,
  );
}

function take(element, payload, file) {
  [place, value, similarity] = [element, payload, decodeValues(file)];
  draw();
}

store.define("position_embeddings", {
  skeleton: "tiles",
  ...createFileView(({ similarity }) => similarity, take),
});
