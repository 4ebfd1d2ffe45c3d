// Table of coloured cells with a number or a name in each; cells with a `pick` are real buttons.
import { markup, nothing } from "../markup.js";
import { drawLazily } from "./lazy.js";
import { createRoving, getColour } from "./shared.js";
import { drawTable } from "./table.js";

// Black or white text, whichever has more contrast on the colour (WCAG 2.1, relative luminance).
function getInk(rgb) {
  const linearise = (part) => (part <= 10 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4);
  const [red, green, blue] = rgb.map(linearise);
  return (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05) ** 2 > 0.05 * 1.05 ? "#000" : "#fff";
}
export const formatCellStyle = (rgb) => `background: rgb(${rgb.join(" ")}); color: ${getInk(rgb)}`;
export const parseHex = (colour) => [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));

// Number with sign, such as +0.25 or −0.25; 0.00 without a sign.
export function formatSigned(value, digits = 2) {
  const text = Math.abs(value).toFixed(digits);
  return (Number(text) === 0 ? "" : value > 0 ? "+" : "−") + text;
}

// `rows` are { name, cells, isCurrent }, `columns` are the cells of the head, `corner` is the first heading.
// A cell is { text, label, rgb, pick, pressed }; `choose` is called with the pick of its button.
export function drawGrid({ caption, corner = null, columns = [], rows, look = "", style = null }, choose) {
  const buttons = [...columns, ...rows.flatMap(({ cells }) => cells)].filter(({ pick }) =>
    pick !== undefined
  );
  const stop = buttons.find(({ pressed }) => pressed) ?? buttons[0]; // the button that Tab reaches
  const across = columns.some(({ pick }) => pick !== undefined) ? columns.length : rows[0]?.cells.length;
  const keys = createRoving(() => across);
  const formatStyle = ({ rgb }) => (rgb ? formatCellStyle(rgb) : nothing);

  const drawButton = (cell) =>
    markup`<button type="button" data-pick=${cell.pick} aria-pressed=${String(Boolean(cell.pressed))}
      aria-label=${cell.label ?? nothing} title=${cell.label ?? nothing} style=${formatStyle(cell)}
      tabindex=${cell === stop ? 0 : -1} @click=${() => choose(cell.pick)}>${cell.text}</button>`;
  const drawHeadCell = (cell) =>
    cell.pick === undefined
      ? markup`<th scope="col" title=${cell.label ?? nothing} style=${formatStyle(cell)}>${cell.text}</th>`
      : markup`<th scope="col">${drawButton(cell)}</th>`;
  const drawCell = (cell) =>
    cell.pick === undefined
      ? markup`<td title=${cell.label ?? nothing} style=${formatStyle(cell)}>${cell.text}</td>`
      : markup`<td>${drawButton(cell)}</td>`;
  const drawRow = ({ name, cells, isCurrent }) =>
    markup`<tr aria-current=${isCurrent ? "true" : nothing}>${
      name ? markup`<th scope="row">${name}</th>` : nothing
    }${cells.map(drawCell)}</tr>`;
  const first = corner ? markup`<th scope="col">${corner}</th>` : markup`<td></td>`;
  const heads = markup`<thead><tr>${corner === null ? nothing : first}${
    columns.map(drawHeadCell)
  }</tr></thead>`;
  // Without buttons, the keyboard scrolls the table itself.
  return markup`<div class="vd-scroll" tabindex=${buttons.length ? nothing : 0} style=${style ?? nothing}>
    <table class="vd-cells ${look}" @focusin=${keys.focus} @keydown=${keys.press}>
      ${caption ? markup`<caption>${caption}</caption>` : nothing}
      ${columns.length ? heads : nothing}
      <tbody>${rows.map(drawRow)}</tbody>
    </table>
  </div>`;
}

// Legend of signed colours from `from` to `to`, followed by `words`.
export function drawScale(from, to, words, backwards = false) {
  const stops = Array.from(
    { length: 9 },
    (_, i) => `rgb(${getColour((backwards ? 8 - i : i) / 8).join(" ")})`,
  );
  const style = `background: linear-gradient(to right, ${stops.join(", ")})`;
  return markup`<div class="vd-legend">${from}<i class="vd-ramp" style=${style}></i>${to + words}</div>`;
}

// Folded table of `rows`, which is drawn while it is open.
export const drawFoldedTable = (title, columns, rows) =>
  markup`<details class="vd-numbers"><summary>${title}</summary>${
    drawLazily(() => drawTable({ columns, rows }))
  }</details>`;

// Folded table of a grid of texts, with the numbers of rows and columns.
export const drawFoldedGrid = (title, corner, lines) =>
  drawFoldedTable(
    title,
    [corner, ...lines[0].map((_, j) => String(j + 1))],
    lines.map((line, i) => [String(i + 1), ...line]),
  );

// Caption with an optional badge `label` before it.
export const drawCaption = (text, label = "") =>
  markup`<p class="vd-said">${label ? markup`<b class="vd-badge">${label}</b> ` : nothing}${text}</p>`;

// Paragraphs that are hidden until the user opens them.
export const drawAbout = (...texts) =>
  markup`<details class="vd-numbers"><summary>About</summary>${
    texts.map((text) => drawCaption(text))
  }</details>`;
