// The original image and the presets of its changes, as buttons with small images. The button of the current changes is
// pressed, and its description is shown below.
import { createRoving, formatSheetStyle } from "../../components/shared.js";
import { markup, nothing, render as draw } from "../../markup.js";
import * as store from "../../store.js";
import * as imageChanges from "./changes.js";

function drawTile({ title, changes }, at, { presets, sheet }, current) {
  const style = formatSheetStyle(sheet, at, presets.length);
  return markup`<button type="button" id=${at ? nothing : "hands-reset"} data-pick=${title}
    aria-pressed=${String(imageChanges.isApplied(changes))} tabindex=${at === current ? 0 : -1}
    @click=${() =>
    imageChanges.apply(changes)}><i class="vd-cut" style=${style}></i><span>${title}</span></button>`;
}

function render(element, data) {
  const applied = data.presets.findIndex(({ changes }) => imageChanges.isApplied(changes));
  const tiles = data.presets.map((preset, at) => drawTile(preset, at, data, Math.max(applied, 0)));
  const keys = createRoving(() => tiles.length);
  draw(
    markup`<div class="tiles" role="group" aria-label="Changes of the image" @focusin=${keys.focus}
        @keydown=${keys.press}>${tiles}</div>
      <p id="hands-note" role="status">${data.presets[applied]?.description ?? ""}</p>`,
    element,
  );
}

store.define("change_presets", {
  skeleton: "tiles",
  follows: imageChanges.KEYS,
  render,
});
