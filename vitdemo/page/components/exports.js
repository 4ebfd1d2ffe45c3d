// Files of charts and tables. An element offers them with `setExports`; a figure with a drawing always offers PNG, and
// SVG if its drawing is one SVG. The menu Export (export_menu/view.js) lists the offers of a tab.
import { formatFileName, makeCanvas, saveAs, saveText } from "./shared.js";

const SCALE = 2; // pixels of a PNG per pixel of the screen
const STYLES = [
  ...["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity"],
  ...["color", "font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline", "visibility"],
];
const offers = new WeakMap(); // element -> function that returns { name, formats: { text of the button: save } }, or null

// `describe()` is called when the menu opens. A `save` function may return a message, or a promise of one.
export function setExports(element, describe) {
  offers.set(element, describe);
  element.dataset.exports = "";
}

// --- figures ---

const listLayers = (figure) =>
  [...figure.querySelectorAll("img, svg, canvas.vd-whole")].filter((part) =>
    part.getBoundingClientRect().width > 0
  );

// The text of an SVG file, which does not depend on the styles of the page.
function formatSvg(svg) {
  const copy = svg.cloneNode(true);
  const [parts, copies] = [svg, copy].map((each) => [each, ...each.querySelectorAll("*")]);
  parts.forEach((part, i) => {
    const style = getComputedStyle(part);
    for (const name of STYLES) copies[i].style.setProperty(name, style.getPropertyValue(name));
  });
  const { width, height } = svg.getBoundingClientRect();
  for (const [name, value] of Object.entries({ xmlns: svg.namespaceURI, width, height })) {
    copy.setAttribute(name, value);
  }
  return new XMLSerializer().serializeToString(copy);
}

async function loadSvg(text) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  return image;
}

const saveSvg = (text, file) => saveText(text, `${file}.svg`, "image/svg+xml");
const savePng = (canvas, file) => saveAs(canvas.toDataURL("image/png"), `${file}.png`);

// The formats of an SVG that is not on the page, and has its own size, styles and background.
export function makeDrawingFormats(svg, file) {
  const text = new XMLSerializer().serializeToString(svg);
  async function saveDrawing() {
    const image = await loadSvg(text);
    const canvas = makeCanvas(SCALE * image.width, SCALE * image.height);
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    savePng(canvas, file);
  }
  return { PNG: saveDrawing, SVG: () => saveSvg(text, file) };
}

// Draw the images of a figure at their places.
async function drawLayers(figure) {
  const parts = listLayers(figure);
  const boxes = parts.map((part) => part.getBoundingClientRect());
  const [left, top] = ["left", "top"].map((side) => Math.min(...boxes.map((box) => box[side])));
  const [right, bottom] = ["right", "bottom"].map((side) => Math.max(...boxes.map((box) => box[side])));
  const canvas = makeCanvas(Math.round(SCALE * (right - left)), Math.round(SCALE * (bottom - top)));
  const context = canvas.getContext("2d");
  if (parts.some((part) => part.tagName === "svg")) {
    context.fillStyle = getComputedStyle(document.body).backgroundColor; // SVGs have no background
    context.fillRect(0, 0, canvas.width, canvas.height);
  }
  for (const [i, part] of parts.entries()) {
    const { imageRendering, opacity } = getComputedStyle(part);
    const { left: x, top: y, width, height } = boxes[i];
    context.globalAlpha = Number(opacity);
    context.imageSmoothingEnabled = imageRendering !== "pixelated";
    const place = [x - left, y - top, width, height].map((pixels) => SCALE * pixels);
    context.drawImage(part.tagName === "svg" ? await loadSvg(formatSvg(part)) : part, ...place);
  }
  return canvas;
}

function describeFigure(figure) {
  const [first, ...others] = listLayers(figure);
  const name = figure.getAttribute("aria-label") || first.alt || "figure";
  const file = `vitdemo-${formatFileName(name)}`;
  const saveLayers = async () => savePng(await drawLayers(figure), file);
  const isSvg = first.tagName === "svg" && !others.length;
  const title = figure.querySelector("figcaption")?.textContent.trim() || name;
  return {
    name: title,
    formats: { PNG: saveLayers, ...(isSvg && { SVG: () => saveSvg(formatSvg(first), file) }) },
  };
}

// The component of a canvas over an image has its own buttons.
const isOffered = (figure) =>
  listLayers(figure).length > 0 && !figure.querySelector("canvas:not(.vd-whole)") && figure.checkVisibility();

// The offers of all visible views in `scope`, in their order; closed folds of these views are included.
export function listExports(scope) {
  const isShown = (each) => (each.closest("[data-view]") ?? each).checkVisibility();
  for (const each of scope.querySelectorAll("vd-lazy")) if (isShown(each)) each.fill();
  return [...scope.querySelectorAll("figure, [data-exports]")].filter(isShown)
    .map((each) =>
      offers.get(each)?.() ?? (each.matches("figure") && isOffered(each) && describeFigure(each))
    )
    .filter(Boolean);
}
