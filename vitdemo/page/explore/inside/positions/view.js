// Similarity of position embeddings: between a chosen patch and all others, and an overview.
import {
  drawAbout,
  drawCaption,
  drawFoldedGrid,
  drawGrid,
  drawScale,
  formatSigned,
} from "../../../components/grid.js";
import { decodeValues } from "../../../components/matrices.js";
import { clamp, drawValues, getColour, makeRange } from "../../../components/shared.js";
import { markup, render } from "../../../markup.js";
import * as store from "../../../store.js";
import { createFileView } from "../shared.js";

const PATCH = "positions.patch"; // state key: "row,column"
const NUMBERED = 8; // columns; the cells of a wider grid have no room for a number
const ABOUT =
  "The similarity does not depend on the image, and is 1 for the patch itself. The colours end at the largest cosine between two different patches.";
const INITIALISATION_TEXTS = {
  random:
    "The embeddings were initialised with random numbers, without information about positions. Similarity between neighbours, rows and columns was learned.",
  mimetic:
    "The embeddings were initialised with sines and cosines (mimetic initialisation, Trockman & Kolter 2023). Neighbours were similar from the start, so not all of the similarity was learned.",
  weights:
    "Training started from the weights of another model. The similarity comes from the training of the other model, or from its initialisation.",
};

// Row and column, from 0, of the patch closest to the chosen patch (the grid may have changed), or of a central patch.
function findPatch(grid, chosen) {
  const places = /^\d+,\d+$/.test(chosen) ? chosen.split(",").map((text) => Number(text) - 1) : [];
  return grid.map((count, i) => clamp(places[i] ?? Math.floor((count - 1) / 2), 0, count - 1));
}

function drawMap({ grid: [rows, columns], limit }, similarity, [row, column]) {
  const at = (row * columns + column) * rows * columns;
  const values = makeRange(
    rows,
    (i) => [...similarity.subarray(at + i * columns, at + (i + 1) * columns)],
  );
  const computeShare = (number) => (limit > 0 ? (number / limit + 1) / 2 : 0.5);
  const cells = values.map((line, i) => ({
    cells: line.map((number, j) => ({
      text: columns <= NUMBERED ? formatSigned(number, 1) : "",
      label: `Row ${i + 1}, column ${j + 1}: ${formatSigned(number)}`,
      rgb: getColour(computeShare(number)),
      pick: `${i}.${j}`, // lessons contain this selector
      pressed: i === row && j === column,
    })),
  }));
  const drawn = drawGrid({
    caption: `Row ${row + 1}, column ${column + 1}`,
    rows: cells,
    look: "vd-patches",
    style: `--columns: ${columns}`,
  }, (pick) => store.set({ [PATCH]: pick.split(".").map((at) => Number(at) + 1).join(",") }));
  const numbers = values.map((line) => line.map((number) => formatSigned(number)));
  return markup`<div>${drawn}${drawScale(formatSigned(-limit), formatSigned(limit), "")}${
    drawFoldedGrid("Cosine similarities of the chosen patch", "row", numbers)
  }</div>`;
}

// The maps of all patches, each at the place of its patch, with gaps of NaN between the maps.
function drawOverview({ run, grid: [rows, columns], limit }, similarity) {
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
    `${run}: ${rows} by ${columns} small maps, each at the place of its patch. A map shows the similarity of the patch's position embedding to all others.`;
  return markup`<div class="vd-pair" id="all-positions"><figure aria-label=${label}>${canvas}<figcaption>All patches: one small map per patch</figcaption></figure></div>`;
}

function draw(element, data, similarity) {
  render(
    markup`<h2>Position embeddings</h2>${
      drawCaption("Cosine similarity of the chosen patch's position embedding to all others.")
    }<div class="maps">${drawMap(data, similarity, findPatch(data.grid, store.state[PATCH]))}${
      drawOverview(data, similarity)
    }</div>${drawAbout(`${ABOUT} ${INITIALISATION_TEXTS[data.start]}`)}`,
    element,
  );
}

store.define("position_embeddings", {
  skeleton: "tiles",
  follows: [PATCH],
  create: (element) =>
    createFileView(
      element,
      ({ similarity }) => similarity,
      (data, file) => draw(element, data, decodeValues(file)),
    ),
});
