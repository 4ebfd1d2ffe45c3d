// Rows of example images, one row per class. All images are parts of one sheet.
import { createRoving, formatSheetStyle } from "../../../components/shared.js";
import { markup, render as draw } from "../../../markup.js";
import * as store from "../../../store.js";
import { fillPlural } from "../../../texts.js";

function drawButton(value, name, number, at) {
  const rows = Math.ceil(value.numbers.flat().length / value.columns);
  const style = formatSheetStyle(value.sheet, at, value.columns, rows);
  const words = `${name}, test image ${number}. Open in Explore.`;
  const image = { source: `test:${number}`, path: null, at: 0.5 };
  return markup`<button type="button" class="vd-cut" style=${style} title=${words} aria-label=${words}
    data-pick=${number} tabindex=${at ? -1 : 0} @click=${() =>
    store.openImage({ ...value.open, image })}></button>`;
}

store.define("class_examples", {
  skeleton: "tiles",
  isIndependent: true,
  render(element, value) {
    const keys = createRoving(() => value.columns);
    let at = 0;
    const drawRow = (name, k) =>
      markup`<div class="row"><strong>${name}</strong>${
        value.numbers[k].map((number) => drawButton(value, name, number, at++))
      }</div>`;
    draw(
      markup`<p>${
        fillPlural(
          value.classes.length,
          "{count} class, with random test images. Click an image to open it in Explore.",
          "{count} classes, with random test images. Click an image to open it in Explore.",
        )
      }</p>
        <div class=${
        value.pixels ? "rows" : "rows smooth"
      } role="group" aria-label="Example images of each class"
          @focusin=${keys.focus} @keydown=${keys.press}>${value.classes.map(drawRow)}</div>`,
      element,
    );
  },
});
