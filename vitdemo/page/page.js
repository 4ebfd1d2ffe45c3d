// Adds a button to every figure that saves it as PNG with double
// resolution, and prints in light colours.
import { makeCanvas, observePage, saveAs } from "./components/shared.js";
import { makeElement, markup } from "./markup.js";
import { fill, PNG, SAVE_AS_PNG } from "./texts.js";

const SCALE = 2;
const listLayers = (figure) =>
  [...figure.querySelectorAll("img, svg, canvas.vd-whole")].filter(
    (part) => !part.closest("button.vd-save") && part.getBoundingClientRect().width > 0,
  );

const asImage = (part) =>
  new Promise((resolve, reject) => {
    if (part.tagName !== "svg") return resolve(part);
    const image = new Image();
    image.onload = () => resolve(image);
    image.onerror = reject;
    const { width, height } = part.getBoundingClientRect();
    const copy = part.cloneNode(true);
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("width", SCALE * width);
    copy.setAttribute("height", SCALE * height);
    const style = getComputedStyle(part);
    copy.style.color = style.color; // "currentColor" is undefined outside the page
    copy.style.fontFamily = style.fontFamily;
    image.src = "data:image/svg+xml;charset=utf-8," +
      encodeURIComponent(new XMLSerializer().serializeToString(copy));
  });

async function draw(figure) {
  const parts = listLayers(figure);
  const boxes = parts.map((part) => part.getBoundingClientRect());
  const left = Math.min(...boxes.map((box) => box.left));
  const top = Math.min(...boxes.map((box) => box.top));
  const [right, bottom] = ["right", "bottom"].map((side) => Math.max(...boxes.map((box) => box[side])));
  const canvas = makeCanvas(Math.round(SCALE * (right - left)), Math.round(SCALE * (bottom - top)));
  const context = canvas.getContext("2d");
  if (parts.some((part) => part.tagName === "svg")) {
    context.fillStyle = getComputedStyle(document.body).backgroundColor; // SVGs have no background
    context.fillRect(0, 0, canvas.width, canvas.height);
  }
  for (const [i, part] of parts.entries()) {
    const style = getComputedStyle(part);
    context.globalAlpha = Number(style.opacity);
    context.imageSmoothingEnabled = style.imageRendering !== "pixelated";
    context.drawImage(
      await asImage(part),
      SCALE * (boxes[i].left - left),
      SCALE * (boxes[i].top - top),
      SCALE * boxes[i].width,
      SCALE * boxes[i].height,
    );
  }
  return canvas;
}

const formatFileName = (figure) => {
  const words = figure.getAttribute("aria-label") || listLayers(figure).find((part) => part.alt)?.alt ||
    "figure";
  const plain = words.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  return "vitdemo-" + plain.slice(0, 60).replace(/^-+|-+$/g, "") + ".png";
};

async function save(figure) {
  saveAs((await draw(figure)).toDataURL("image/png"), formatFileName(figure));
}

function addSaveButton(figure) {
  // The component of a canvas over an image has its own button.
  if (
    figure.querySelector("button.vd-save, canvas:not(.vd-whole)") || !figure.querySelector("img, svg, canvas")
  ) return;
  figure.append(makeElement(
    markup`<button type="button" class="vd-save" title="Save this figure as PNG" aria-label=${
      fill(SAVE_AS_PNG, { name: formatFileName(figure) })
    } @click=${() => save(figure)}>${PNG}</button>`,
  ));
}

const addSaveButtons = () => document.querySelectorAll("figure").forEach(addSaveButton);
observePage(addSaveButtons, requestAnimationFrame);
addSaveButtons();

// Switch to the light theme while printing.
const { classList } = document.body;
let dark = false;
addEventListener("beforeprint", () => {
  dark = classList.contains("dark");
  classList.remove("dark");
});
addEventListener("afterprint", () => classList.toggle("dark", dark));
