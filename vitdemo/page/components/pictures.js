// Draws the images and maps of pictures.py side by side.
import { elementOf, markup, nothing } from "../markup.js";
import { TEXTS } from "../texts.js";
import { foldedGrid } from "./grid.js";
import { paint, roving, sheetStyle } from "./shared.js";

// Image `at` of `count` images that are side by side in one file.
function cut(sheet, at, count, label, chosen, pick, isStop) {
  const style = sheetStyle(sheet, at, count);
  if (!chosen) return markup`<div class="vd-cut" role="img" aria-label=${label} style=${style}></div>`;
  return markup`<button type="button" class="vd-cut" aria-label=${label} data-pick=${chosen} style=${style}
    tabindex=${isStop ? 0 : -1} @click=${() => pick?.(chosen)}></button>`;
}

function map({ values, signed, alt }) {
  const canvas = elementOf(markup`<canvas role="img" aria-label=${alt}></canvas>`);
  paint(canvas, values.flat(), [values.length, values[0].length], { signed });
  return canvas;
}

const numbers = (values) =>
  foldedGrid(TEXTS.pictures.values, "", values.map((line) => line.map((value) => value.toFixed(2))));

export function pictures({ items, sheet, width }, pick) {
  const images = items.filter(({ values }) => !values);
  const stop = images.find((item) => item.pick);
  const drawn = (item) =>
    item.values
      ? map(item)
      : cut(sheet, images.indexOf(item), images.length, item.alt, item.pick, pick, item === stop);
  const figure = (item) =>
    markup`<figure>${drawn(item)}<figcaption>${item.caption ?? ""}${
      item.note ? markup`<small> ${item.note}</small>` : nothing
    }</figcaption>${item.values ? numbers(item.values) : nothing}</figure>`;
  const keys = roving(() => images.filter((item) => item.pick).length);
  return markup`<div class="vd-row" style="--vd-width: ${width}px" @focusin=${keys.focus} @keydown=${keys.press}>${
    items.map(figure)
  }</div>`;
}
