// Maps as images for slides, PNG or SVG: with title, model, colour scale and a white background.
import { formatFileName, getColour, makeCanvas, saveAs, saveText } from "./shared.js";

const [INK, QUIET, PAPER] = ["#111827", "#475569", "#ffffff"];
const FONT = "system-ui, sans-serif";
const [MARGIN, LINE, TITLE_SIZE, TEXT_SIZE] = [20, 24, 18, 14];
const STEPS = 64; // colours of the scale
const PIXELS = 2; // pixels per unit of a PNG

const formatFont = (size, weight) => [weight, `${size}px`, FONT].join(" ");
const measure = makeCanvas(1, 1).getContext("2d");

// Split a text into lines of at most `width`.
function wrapText(text, width, size, weight) {
  measure.font = formatFont(size, weight);
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (lines.at(-1) && measure.measureText(longer).width > width) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines;
}

// Return { width, height, images, texts, colours } of a figure:
// - `title` and `notes` (such as the model's name) are texts above the maps.
// - `width` and `height` are the size of the maps, `cells` are { canvas, x, y, width, height } over `image`, with
//   `opacity`, and `labels` are { text, x (of the middle), y (of the middle) }.
// - `scale` is { from, to, signed }, the labels of the colours.
function layOut({ title, notes = [], width, height, cells, labels = [], scale, opacity, image }) {
  const texts = [];
  let y = MARGIN;
  const write = (text, size, weight, fill) => {
    for (const line of wrapText(text, width, size, weight)) {
      texts.push({ text: line, x: MARGIN, y: y + LINE / 2, size, weight, fill, anchor: "start" });
      y += LINE;
    }
  };
  write(title, TITLE_SIZE, 600, INK);
  for (const note of notes) write(note, TEXT_SIZE, 400, QUIET);
  y += 8;
  const place = (cell) => ({ ...cell, x: cell.x + MARGIN, y: cell.y + y });
  const images = cells.map((cell) => ({ ...place(cell), image, opacity }));
  for (const label of labels) {
    texts.push({ size: 12, weight: 400, fill: QUIET, anchor: "middle", ...place(label) });
  }
  y += height + 14;
  measure.font = formatFont(TEXT_SIZE, 400);
  const left = MARGIN + measure.measureText(scale.from).width + 8;
  const [length, middle] = [Math.min(160, width / 3), y + 8];
  const colours = Array.from({ length: STEPS }, (_, i) => {
    const rgb = getColour((i + 0.5) / STEPS, scale.signed);
    return {
      x: left + (i * length) / STEPS,
      y: y + 2,
      width: length / STEPS + 0.5,
      height: 12,
      fill: `rgb(${rgb.join(",")})`,
    };
  });
  const end = { y: middle, size: TEXT_SIZE, weight: 400, fill: INK, anchor: "start" };
  texts.push({ ...end, text: scale.from, x: MARGIN }, { ...end, text: scale.to, x: left + length + 8 });
  return { width: width + 2 * MARGIN, height: y + 16 + MARGIN, images, texts, colours };
}

function toCanvas({ width, height, images, texts, colours }) {
  const canvas = makeCanvas(Math.round(PIXELS * width), Math.round(PIXELS * height));
  const context = canvas.getContext("2d");
  context.scale(PIXELS, PIXELS);
  context.imageSmoothingEnabled = false;
  context.fillStyle = PAPER;
  context.fillRect(0, 0, width, height);
  for (const { image, canvas: map, opacity, x, y, ...size } of images) {
    context.globalAlpha = 1;
    context.drawImage(image, x, y, size.width, size.height);
    context.globalAlpha = opacity;
    context.drawImage(map, x, y, size.width, size.height);
  }
  context.globalAlpha = 1;
  for (const { fill, x, y, ...size } of colours) {
    context.fillStyle = fill;
    context.fillRect(x, y, size.width, size.height);
  }
  context.textBaseline = "middle";
  for (const { text, x, y, size, weight, fill, anchor } of texts) {
    Object.assign(context, {
      font: formatFont(size, weight),
      fillStyle: fill,
      textAlign: anchor === "middle" ? "center" : "start",
    });
    context.fillText(text, x, y);
  }
  return canvas;
}

// Data URL of an image, so that the file needs no other file.
function makeDataUrl(image) {
  if (image.tagName === "CANVAS") return image.toDataURL();
  const copy = makeCanvas(image.naturalWidth, image.naturalHeight);
  copy.getContext("2d").drawImage(image, 0, 0);
  return copy.toDataURL();
}

function makeSvgElement(tag, properties, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(properties)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function toSvg({ width, height, images, texts, colours }) {
  const sizes = { width: 1, height: 1, preserveAspectRatio: "none", style: "image-rendering: pixelated" };
  const seen = images.length
    ? [
      makeSvgElement(
        "defs",
        {},
        makeSvgElement("image", { id: "image", href: makeDataUrl(images[0].image), ...sizes }),
      ),
    ]
    : [];
  const maps = images.map(({ canvas, opacity, x, y, ...size }) =>
    makeSvgElement(
      "g",
      { transform: `translate(${x} ${y}) scale(${size.width} ${size.height})` },
      makeSvgElement("use", { href: "#image" }),
      makeSvgElement("image", { href: makeDataUrl(canvas), opacity, ...sizes }),
    )
  );
  const words = texts.map(({ text, x, y, size, weight, fill, anchor }) =>
    makeSvgElement("text", {
      x,
      y,
      fill,
      "font-size": size,
      "font-weight": weight,
      "text-anchor": anchor,
      "dominant-baseline": "central",
    }, text)
  );
  const root = makeSvgElement(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": FONT },
    ...seen,
    makeSvgElement("rect", { width, height, fill: PAPER }),
    ...maps,
    ...colours.map((each) => makeSvgElement("rect", each)),
    ...words,
  );
  return new XMLSerializer().serializeToString(root);
}

// Share a figure as PNG with another program, or save it where the browser cannot share files.
export async function shareMaps(figure, name, text) {
  const canvas = toCanvas(layOut(figure));
  const file = `vitdemo-${formatFileName(name)}.png`;
  const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
  const shared = { files: [new File([blob], file, { type: "image/png" })], text };
  if (!navigator.canShare?.(shared)) return saveAs(canvas.toDataURL("image/png"), file);
  return navigator.share(shared).catch(() => {}); // the user closed the dialog
}

// Save a figure (see `layOut`) as "png" or "svg".
export function saveMaps(figure, name, format) {
  const file = `vitdemo-${formatFileName(name)}.${format}`;
  if (format === "svg") saveText(toSvg(layOut(figure)), file, "image/svg+xml");
  else saveAs(toCanvas(layOut(figure)).toDataURL("image/png"), file);
}
