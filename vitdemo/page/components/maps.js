// The block MapRow of a document: maps next to each other, each over the model's input image.
import { makeElement, markup, nothing } from "../markup.js";
import { fill, PNG, SAVE_AS_PNG } from "../texts.js";
import { drawGrid } from "./grid.js";
import { drawLazily } from "./lazy.js";
import { saveMaps } from "./map_files.js";
import { drawValues, findLargest, formatRamp } from "./shared.js";

const OWN_MAXIMUM = "the map's own maximum";

function drawNumbers({ values, fraction }) {
  const unit = fraction ? 1 : findLargest(values.flat()) || 1;
  const makeCell = (value) => ({ text: ((100 * value) / unit).toFixed(1) });
  return drawGrid({
    caption: fraction ? "Values are in percent." : "Values are in percent of the largest absolute value.",
    corner: "",
    columns: values[0].map((_, i) => ({ text: i + 1 })),
    rows: values.map((row, i) => ({ name: i + 1, cells: row.map(makeCell) })),
  });
}

// Buttons that save the map for slides; `ends` are the labels of the colours.
function drawSaveButtons({ alt, caption, head, lines = [], signed, title }, image, canvas, ends) {
  const side = 640;
  const [from, to] = signed ? ends : ["0", OWN_MAXIMUM];
  const makeFigure = () => ({
    title: [head, title].filter(Boolean).join(": "),
    notes: [alt, ...lines, caption].filter(Boolean).map((text) => text.replaceAll("**", "")),
    width: side,
    height: side,
    image,
    cells: [{ canvas, x: 0, y: 0, width: side, height: side }],
    scale: { from, to, signed },
    opacity: Number(getComputedStyle(canvas).opacity),
  });
  const formats = { png: [PNG, SAVE_AS_PNG], svg: ["SVG", "Save as SVG: {name}"] };
  return Object.entries(formats).map(([format, [text, label]]) =>
    markup`<button type="button" aria-label=${fill(label, { name: alt })}
      @click=${() => saveMaps(makeFigure(), alt, format)}>${text}</button>`
  );
}

// The figure of a map: the panel of a `MapRow`. `ends` are the labels of the colours of a signed map.
export function drawMapFigure(panel, ends) {
  const { alt, badge, caption, head, lines = [], seen, signed, title, values } = panel;
  const canvas = document.createElement("canvas");
  const image = makeElement(markup`<img src=${seen.url} alt=${alt}>`);
  drawValues(canvas, values.flat(), [values.length, values[0].length], { signed });
  const drawBadge = () => markup`<span class="badge" title=${panel.badge_title ?? nothing}>${badge}</span>`;
  const more = markup`<details><summary>Values</summary>${drawLazily(() => drawNumbers(panel))}</details>`;
  return markup`<figure>${head ? markup`<h3>${head}</h3>` : nothing}
    <div class="vd-overlay">${image}${canvas}</div>
    <figcaption><strong>${title}${badge ? drawBadge() : nothing}</strong>
      ${lines.map((text) => markup`<p>${text}</p>`)}
      ${caption ? markup`<p class="quiet">${caption}</p>` : nothing}
      <div class="tools">${drawSaveButtons(panel, image, canvas, ends)}${more}</div>
    </figcaption>
  </figure>`;
}

// The colour scales of `panels`.
export function drawScales(panels, ends) {
  const drawScale = (signed, from, to) =>
    markup`<span>${from}<i style="background: ${formatRamp(signed)}"></i>${to}</span>`;
  return markup`<div class="legends">${
    panels.some(({ signed }) => !signed) ? drawScale(false, "0", OWN_MAXIMUM) : nothing
  }${panels.some(({ signed }) => signed) ? drawScale(true, ...ends) : nothing}</div>`;
}

// Maps next to each other.
export function drawMapRow({ colour_labels: ends, intro, panels = [], sentence }) {
  return markup`<div class="vd-maps">
    ${sentence ? markup`<p class="vd-notice sentence" role="status">${sentence}</p>` : nothing}
    ${intro ? markup`<p class="intro">${intro}</p>` : nothing}
    <div class="panels">${panels.map((panel) => drawMapFigure(panel, ends))}</div>
    ${drawScales(panels, ends)}
  </div>`;
}
