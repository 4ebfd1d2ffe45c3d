// Colours of the patches of an image by layer, and of the example photos after the chosen layer. A click on a patch
// chooses it, see patches.js. All layers are in one file, so another layer needs no request.
import { drawAbout, drawCaption } from "../../../components/grid.js";
import { decodeValues } from "../../../components/matrices.js";
import {
  createRoving,
  formatPercent,
  formatSheetStyle,
  makeCanvas,
  makeRange,
  placeRing,
} from "../../../components/shared.js";
import { addStrokes } from "../../../components/strokes.js";
import { makeElement, markup, render as draw } from "../../../markup.js";
import * as store from "../../../store.js";
import { createFileView } from "../shared.js";
import { parsePatch, PATCH } from "./patch.js";
import "./patches.js";

const ABOUT = [
  "The tokens of the patches are projected onto their first three principal components, which are red, green and blue (as in Oquab et al. 2023, DINOv2). Patches with similar tokens have similar colours. A colour has the same meaning in all images, but not in different layers.",
  "The components are computed from the patches of all example photos. The colours range from the 2nd to the 98th percentile of these patches. Three components explain only a part of the variance, so patches with the same colour can still have different tokens.",
];

// Draw the colours of image `number` (0: the chosen image, then the photos) after `layer` on a canvas, a pixel per patch.
function drawColours({ grid: [rows, columns] }, { maps, values }, layer, number) {
  const canvas = makeCanvas(columns, rows);
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  const start = 3 * ((layer - 1) * maps + number) * rows * columns;
  for (let i = 0; i < rows * columns; i++) {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = Math.round(255 * values[start + 3 * i + c]);
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

function drawLayers(data, file, chosen) {
  const drawLayer = (layer) =>
    markup`<button type="button" data-pick=${layer} aria-pressed=${
      String(layer === chosen)
    } aria-label="Colours after layer ${layer}" title="After layer ${layer}" tabindex=${
      layer === chosen ? 0 : -1
    } @click=${() => store.chooseLayer(layer)}>${
      drawColours(data, file, layer, 0)
    }<small>${layer}</small></button>`;
  const keys = createRoving(
    (all) => all.filter(({ offsetTop }) => offsetTop === all[0].offsetTop).length,
    true,
  );
  return markup`<div class="layers" role="group" aria-label="Layer" @focusin=${keys.focus} @keydown=${keys.press}>${
    makeRange(data.layers, (i) => drawLayer(i + 1))
  }</div>`;
}

function drawPhotos(data, file, layer) {
  const { photos, sheet } = data;
  const drawPhoto = (name, i) =>
    markup`<figure><i class="photo" role="img" aria-label="Photo: ${name}" style=${
      formatSheetStyle(sheet, i, photos.length)
    }></i>${drawColours(data, file, layer, i + 1)}<figcaption>${name}</figcaption></figure>`;
  return markup`<div class="photos" role="group" aria-label="Example photos in the same colours">${
    photos.map(drawPhoto)
  }</div>`;
}

function create(element) {
  let data = null; // the drawn payload
  let [url, file] = ["", null]; // the file of the colours with its decoded values
  const boards = [
    makeElement(markup`<div class="board" tabindex="0" role="application"></div>`),
    makeElement(markup`<div class="board" role="img"></div>`),
  ];
  const rings = boards.map(() => makeElement(markup`<i class="ring" hidden></i>`));
  const marks = boards.map(() => makeElement(markup`<i class="ring chosen" hidden></i>`));
  const place = makeElement(markup`<p class="read" role="status"></p>`); // for screen readers

  const findChosen = () => parsePatch(store.state[PATCH], data.grid);
  const formatPatch = (cell) => [Math.floor(cell / data.grid[1]) + 1, cell % data.grid[1] + 1];

  function drawBoards(layer) {
    const { grid: [rows, columns], run, seen } = data;
    boards[0].ariaLabel =
      `Input image of ${run}, with ${rows} × ${columns} patches. Arrow keys move the cursor, and Enter chooses a patch.`;
    boards[1].ariaLabel = `Colours of the patches after layer ${layer}`;
    const pictures = [
      markup`<img src=${seen.url} alt="" draggable="false">`,
      drawColours(data, file, layer, 0),
    ];
    boards.forEach((board, i) => {
      draw(markup`${pictures[i]}${marks[i]}${rings[i]}`, board);
      placeRing(marks[i], data.grid, findChosen() ?? undefined);
    });
  }

  function drawAll(found, loaded) {
    data = found;
    if (data.colours.url !== url) {
      [url, file] = [data.colours.url, { maps: loaded.maps, values: decodeValues(loaded) }];
    }
    const layer = Math.min(store.state.layer || data.layers, data.layers);
    drawBoards(layer);
    draw(
      markup`${
        drawCaption(
          `Layer ${layer}: similar tokens have similar colours. The three components explain ${
            formatPercent(data.ratios[layer - 1])
          } of the variance.`,
        )
      }<div class="pair"><figure>${boards[0]}<figcaption>Image</figcaption></figure>
        <figure>${boards[1]}<figcaption>Colours after layer ${layer}</figcaption></figure></div>${place}
        ${drawLayers(data, file, layer)}<h3>Example photos in the same colours</h3>${
        drawPhotos(data, file, layer)
      }${drawAbout(...ABOUT)}`,
      element,
    );
  }

  const handlers = {
    getGrid: () => data?.grid,
    isMarked: (cell) => cell === findChosen(),
    point(cell) {
      rings.forEach((ring) => placeRing(ring, data.grid, cell ?? undefined));
      const [row, column] = cell === null ? [] : formatPatch(cell);
      place.textContent = cell === null ? "" : `Row ${row}, column ${column}`;
    },
    show() {},
    apply: ({ marks: isChosen, cells }) =>
      store.set({ [PATCH]: isChosen && cells.size ? formatPatch([...cells].at(-1)).join(",") : "" }),
  };
  boards.forEach((board) => addStrokes(board, handlers));
  return createFileView(element, ({ colours }) => colours, drawAll);
}

store.define("patch_colours", { skeleton: "figures", follows: ["layer", PATCH], create });
