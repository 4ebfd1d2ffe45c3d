// Documents: the blocks of vitdemo/documents, each drawn with the function of its kind.
import { makeElement, markup, nothing, render } from "../markup.js";
import { define } from "../store.js";
import { setExports } from "./exports.js";
import { drawLazily } from "./lazy.js";
import { drawStroke } from "./line_plots.js";
import { drawMapRow } from "./maps.js";
import { drawImageRow } from "./pictures.js";
import { drawMarkdown, drawNotice, formatChange, formatCsv, formatProbability, saveText } from "./shared.js";
import { drawTable } from "./table.js";

const drawLegendLine = ({ label, colour, dashed }) =>
  markup`<span>${colour ? drawStroke(dashed ? "vd-dashed" : "", colour) : nothing}${label}</span>`;

function drawFigure({ title, label, svg, lines = [], caption }) {
  const drawing = document.createElement("div");
  drawing.innerHTML = svg; // from matplotlib, with all names escaped
  return markup`<figure aria-label=${label ?? nothing}><figcaption>${title}</figcaption>${
    lines.length ? markup`<p class="vd-curves">${lines.map(drawLegendLine)}</p>` : nothing
  }${caption ? markup`<p>${drawMarkdown(caption)}</p>` : nothing}${drawing}</figure>`;
}

function drawDownload({ label, file, header, rows = [] }) {
  const save = () => saveText(formatCsv([header, ...rows]), `${file}.csv`, "text/csv");
  const place = makeElement(markup`<i hidden></i>`);
  setExports(place, () => ({ name: label, formats: { CSV: save } }));
  return place;
}

// Row of a class: probability before (thin bar) and now (thick bar), and the difference.
function drawChange([name, before, now]) {
  const change = formatChange(before, now);
  const kind = { "+": "up", "−": "down" }[change[0]] ?? "";
  return markup`<tr><th scope="row">${name}</th><td class="bars">${
    [before, now].map((share) => markup`<i style="width: ${100 * share}%"></i>`)
  }</td>${
    [before, now].map((share) => markup`<td>${formatProbability(share)}</td>`)
  }<td class="points ${kind}">${change}</td></tr>`;
}

function drawProbabilityChange({ title, classes, before, now, heads }) {
  const head = ["", "", ...heads, "change"].map((text) =>
    text ? markup`<th scope="col">${text}</th>` : markup`<td></td>`
  );
  return markup`<section class="card"><h3>${drawMarkdown(title)}</h3><table class="moved">
    <thead><tr>${head}</tr></thead>
    <tbody>${classes.map((name, i) => drawChange([name, before[i], now[i]]))}</tbody>
  </table></section>`;
}

const drawLegendGroup = ([title, lines]) =>
  markup`<span>${title ? markup`<strong>${title}</strong>` : nothing}${lines.map(drawLegendLine)}</span>`;

// Return a function that draws blocks in `place`. A pressed button calls `pick` with its name.
export function createDocument(place, pick = () => {}) {
  const sorted = {}; // sort order of each table by file or key, which survives a redraw
  const open = new Set(); // keys of the open folds, since the position of a fold can change
  const KINDS = {
    Heading: ({ text }) => markup`<h2>${text}</h2>`,
    Text: ({ text, quiet, told }) =>
      markup`<p class=${quiet ? "quiet" : nothing} role=${told ? "status" : nothing}>${
        drawMarkdown(text)
      }</p>`,
    Notice: ({ text }) => drawNotice(text),
    Bullets: ({ items = [] }) =>
      markup`<ul>${items.map((text) => markup`<li>${drawMarkdown(text)}</li>`)}</ul>`,
    Legend: ({ groups = [] }) => markup`<div class="vd-curves">${groups.map(drawLegendGroup)}</div>`,
    Figure: drawFigure,
    Plots: ({ figures = [] }) => markup`<div class="vd-plots">${figures.map(drawFigure)}</div>`,
    ProbabilityChange: drawProbabilityChange,
    PickList: ({ items = [] }) =>
      markup`<ol>${
        items.map(([name, text]) =>
          markup`<li><button type="button" data-pick=${name} @click=${() => pick(name)}>${text}</button></li>`
        )
      }</ol>`,
    Download: drawDownload,
    Details: ({ title, pieces = [] }, key) => {
      const drawContent = () => drawAll(pieces, key);
      const isLarge = pieces.some(({ kind }) => kind === "Table"); // other folds stay searchable while they are closed
      return markup`<details data-fold=${key} @toggle=${toggle}>
        <summary>${title}</summary>${isLarge ? drawLazily(drawContent) : drawContent()}</details>`;
    },
    ImageRow: (value) => drawImageRow(value, pick),
    MapRow: drawMapRow,
    Table: (value, key) => drawTable(value, sorted[value.file || key] ??= {}),
  };

  // A block's key consists of the titles of the folds around it, its own title or kind, and a count of equal keys.
  function drawAll(pieces, prefix) {
    const counts = {};
    return pieces.map((block) => {
      const name = `${prefix}/${block.title ?? block.kind}`;
      counts[name] = (counts[name] ?? 0) + 1;
      return KINDS[block.kind](block, `${name} ${counts[name]}`);
    });
  }

  const toggle = ({ target }) => open[target.open ? "add" : "delete"](target.dataset.fold);

  return (blocks) => {
    render(drawAll(blocks, ""), place);
    for (const each of place.querySelectorAll("[data-fold]")) each.open = open.has(each.dataset.fold);
  };
}

// Define a view whose data are the blocks of a document. `options` are further fields of the view. Its function `pick`
// is called with the name of a pressed button.
export function defineDocument(name, options = {}) {
  define(name, {
    ...options,
    create(element) {
      element.classList.add("article");
      const draw = createDocument(element, options.pick);
      return { render: (blocks) => draw(blocks) };
    },
  });
}
