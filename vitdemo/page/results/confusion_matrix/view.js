// Confusion matrix of buttons with arrow-key navigation. To its right are the images of the chosen cell or, without a
// cell, a list of the largest errors. The cell is a text of the view state: true and predicted class.
import { createDocument } from "../../components/documents.js";
import { createGallery, resetPageOf } from "../../components/gallery.js";
import { makeDrawingFormats, setExports } from "../../components/exports.js";
import { createRoving, formatCsv, formatShade, saveText } from "../../components/shared.js";
import { markup, nothing, render } from "../../markup.js";
import * as store from "../../store.js";
import { drawMatrixImage, getCellColour } from "./drawing.js";

const MODELS = ["results.tests", "results.model", "results.other"];
const CELL = "confusion.cell";

resetPageOf("confusion", [...MODELS, CELL]);

const encode = ({ classes }, i, j) => `${classes[i]},${classes[j]}`;

function choose(cell) {
  if (cell === store.state[CELL]) scrollToImages();
  else store.set({ [CELL]: cell });
}

// Scroll as little as necessary, so that the chosen cell remains visible.
function scrollToImages() {
  requestAnimationFrame(() =>
    document.querySelector("#cell-pictures .pictures > *")?.scrollIntoView({ block: "nearest" })
  );
}

function drawCell(value, i, j, chosen, stop) {
  const [strength, words] = [value.strengths[i][j], value.spoken[i][j]];
  const style = formatShade(getCellColour(value, i, j), Math.abs(strength));
  const name = encode(value, i, j);
  return markup`<td style=${style}><button type="button" class=${
    value.values[i][j] ? "vd-cell" : "vd-cell zero"
  }
    data-pick="${i}-${j}" aria-label=${words} title=${words} aria-pressed=${String(name === chosen)}
    tabindex=${name === stop ? 0 : -1} @click=${() => choose(name)}>${value.texts[i][j]}</button></td>`;
}

function drawMatrix(value, chosen) {
  const { classes } = value;
  const names = new Set(classes.flatMap((_, i) => classes.map((__, j) => encode(value, i, j))));
  const stop = names.has(chosen) ? chosen : encode(value, 0, 0); // the cell that Tab reaches
  const keys = createRoving(() => classes.length);
  const head = [value.corner, ...classes].map((text) => markup`<th scope="col">${text}</th>`);
  const drawRow = (text, i) =>
    markup`<tr><th scope="row">${text}</th>${
      classes.map((_, j) => drawCell(value, i, j, chosen, stop))
    }</tr>`;
  return markup`<table class=${
    value.signed ? "vd-table signed" : "vd-table"
  } style="--classes: ${classes.length}" @focusin=${keys.focus}
    @keydown=${keys.press}><thead><tr>${head}</tr></thead><tbody>${classes.map(drawRow)}</tbody></table>`;
}

function describeExports(value) {
  const rows = [
    [value.corner, ...value.classes],
    ...value.classes.map((name, i) => [name, ...value.values[i]]),
  ];
  const save = () => saveText(formatCsv(rows), `${value.file}.csv`, "text/csv");
  const formats = { CSV: save, ...makeDrawingFormats(drawMatrixImage(value), value.file) };
  return { name: "Confusion matrix", formats };
}

function drawPairs({ run, pairs: all }) {
  const drawItem = ({ cell, pick, text }) =>
    markup`<li><button type="button" data-pick=${pick} @click=${() => choose(cell)}>${text}</button></li>`;
  return markup`<h2>Most confused pairs of ${run}</h2>
    ${all.length ? markup`<ol>${all.map(drawItem)}</ol>` : markup`<p>No image was misclassified.</p>`}
    <p class="quiet">Choose a cell to see its images.</p>`;
}

store.define("confusion_matrix", {
  skeleton: "tiles",
  follows: [CELL],
  render(element, value, state) {
    const notes = value.notes.map((text) => markup`<p class="quiet">${text}</p>`);
    render(markup`<div class="vd-scroll">${drawMatrix(value, state[CELL])}</div>${notes}`, element);
    setExports(element, () => describeExports(value));
  },
});

store.define("confusion_cell", {
  follows: ["confusion.all_models"],
  create(element) {
    render(
      markup`<div class="pairs"></div>
        <button type="button" class="back" hidden @click=${() => choose("")}>Most confused pairs</button>
        <div id="cell-title" class="article"></div>`,
      element,
    );
    const [list, back, title] = element.children;
    const [drawTitle, drawImages] = [createDocument(title), createGallery(element, "confusion")];
    let shown = null; // the cell of the last drawing
    function draw(data, state) {
      const { title: blocks = [], images = null } = data;
      render(data.pairs ? drawPairs(data) : nothing, list);
      back.hidden = !images;
      drawTitle(blocks);
      drawImages(images, state);
      if (shown !== null && shown !== state[CELL]) scrollToImages();
      shown = state[CELL];
    }
    return {
      render: draw,
      showError: () => draw({}, store.state), // confusion_matrix shows the message
    };
  },
});
