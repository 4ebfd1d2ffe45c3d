// Draws the images and maps of pictures.py side by side.
import { makeElement, markup, nothing } from "../markup.js";
import { drawFoldedGrid } from "./grid.js";
import { createRoving, drawValues, formatSheetStyle } from "./shared.js";

// Image `at` of `count` images that are side by side in one file.
function drawThumbnail(sheet, at, count, label, chosen, pick, isStop) {
  const style = formatSheetStyle(sheet, at, count);
  if (!chosen) return markup`<div class="vd-cut" role="img" aria-label=${label} style=${style}></div>`;
  return markup`<button type="button" class="vd-cut" aria-label=${label} data-pick=${chosen} style=${style}
    tabindex=${isStop ? 0 : -1} @click=${() => pick?.(chosen)}></button>`;
}

function drawMap({ values, signed, alt }) {
  const canvas = makeElement(markup`<canvas role="img" aria-label=${alt}></canvas>`);
  drawValues(canvas, values.flat(), [values.length, values[0].length], { signed });
  return canvas;
}

const drawNumbers = (values) =>
  drawFoldedGrid("Values", "row", values.map((line) => line.map((value) => value.toFixed(2))));

export function drawImageRow({ items, sheet, width }, pick) {
  const images = items.filter(({ values }) => !values);
  const stop = images.find((item) => item.pick);
  const drawItem = (item) =>
    item.values
      ? drawMap(item)
      : drawThumbnail(sheet, images.indexOf(item), images.length, item.alt, item.pick, pick, item === stop);
  const drawFigure = (item) =>
    markup`<figure>${drawItem(item)}<figcaption>${item.caption ?? ""}${
      item.note ? markup`<small> ${item.note}</small>` : nothing
    }</figcaption>${item.values ? drawNumbers(item.values) : nothing}</figure>`;
  const keys = createRoving(() => images.filter((item) => item.pick).length);
  return markup`<div class="vd-row" style="--vd-width: ${width}px" @focusin=${keys.focus} @keydown=${keys.press}>${
    items.map(drawFigure)
  }</div>`;
}
