// Table of table.py, sorted by a click on a column's name. The menu Export saves it as CSV, or copies it as Markdown.
import { markup, nothing, render } from "../markup.js";
import { fill } from "../texts.js";
import { setExports } from "./exports.js";
import { copyText, formatCsv, formatFileName, saveText } from "./shared.js";

const NEXT = { none: "ascending", ascending: "descending", descending: "none" };
const collator = new Intl.Collator("en", { numeric: true });
const asCell = (cell) =>
  cell !== null && typeof cell === "object" ? { text: "", ...cell } : { text: String(cell ?? "") };

// The first number in the text, or null: "> 0.999", "1,234", "−0.4", "–".
function parseNumber(text) {
  const found = /[-+]?\d*\.?\d+(e[-+]?\d+)?/i.exec(text.replaceAll("−", "-").replaceAll(",", ""));
  return found ? Number(found[0]) : null;
}
const getNumber = (cell) => cell.value ?? parseNumber(cell.text);

// Columns as { label, help, numeric }; the first column contains the names of the rows.
const getColumns = (value) =>
  value.columns.map((column, i) =>
    typeof column === "object" ? column : { label: String(column), numeric: i > 0 }
  );

function compareRows(a, b, { column, direction }, numeric) {
  const [one, other] = [a, b].map((row) => (numeric ? getNumber(row[column]) : row[column].text));
  if (one === null || other === null) return (one === null) - (other === null); // missing values are last in both directions
  const order = numeric ? one - other : collator.compare(one, other);
  return direction === "descending" ? -order : order;
}

function drawBar({ bar: share, interval, text }) {
  const clamp = (number) => Math.min(Math.max(100 * number, 0), 100);
  const [left, right] = (interval ?? []).map(clamp);
  const drawWhisker = () => markup`<u style="left: ${left}%; width: ${Math.max(right - left, 0.5)}%"></u>`;
  const hasInterval = interval && interval[0] !== null;
  return markup`<div class="vd-bar"><span class="vd-track"><i style="width: ${clamp(share)}%"></i>${
    hasInterval ? drawWhisker() : nothing
  }</span><b>${text}</b></div>`;
}

function drawContent(cell) {
  const value = cell.bar !== undefined
    ? drawBar(cell)
    : cell.strong
    ? markup`<b>${cell.text}</b>`
    : cell.text;
  return cell.note ? markup`${value}<small>${cell.note}</small>` : value;
}

const formatClasses = ({ numeric, hidden } = {}) =>
  [numeric ? "" : "vd-text", hidden ? "vd-hidden" : ""].join(" ").trim() || nothing;

function drawRow(cells, columns) {
  const [name, ...others] = cells.map(drawContent);
  return markup`<tr><th class=${formatClasses(columns[0])} scope="row">${name}</th>${
    others.map((each, i) => markup`<td class=${formatClasses(columns[i + 1])}>${each}</td>`)
  }</tr>`;
}

// Rows of the CSV file; an interval adds two columns.
function makeCsvRows(columns, rows) {
  const wide = columns.map((_, i) => rows.some((row) => row[i].interval));
  const spread = wide.flatMap((is, i) => (is ? [i] : []));
  const head = [
    ...columns.map(({ label }) => label),
    ...spread.flatMap((i) =>
      ["{column}, low", "{column}, high"].map((end) => fill(end, { column: columns[i].label }))
    ),
  ];
  const exportText = (text) =>
    /^[-+−]?[\d,]+(\.\d+)?$/.test(text) ? parseNumber(text) : text.replaceAll("−", "-").replace(/^–$/, "");
  const roundNumber = (number) => (Number.isInteger(number) ? number : Number(number.toPrecision(6)));
  const exportValue = (cell) => (cell.value === undefined ? exportText(cell.text) : roundNumber(cell.value));
  const exportInterval = (cell) =>
    (cell.interval ?? [null, null]).map((end) => (end === null ? "" : roundNumber(end)));
  return [
    head,
    ...rows.map((row) => [...row.map(exportValue), ...spread.flatMap((i) => exportInterval(row[i]))]),
  ];
}

function formatMarkdown(columns, rows) {
  const escape = (text) => text.replaceAll("\\", "\\\\").replaceAll("|", "\\|").replace(/\s+/g, " ");
  const formatRow = (cells) => `| ${cells.map(escape).join(" | ")} |`;
  const under = columns.map(({ numeric }) => (numeric ? "---:" : "---"));
  const lines = rows.map((row) => row.map(({ text, note }) => (note ? `${text} (${note})` : text)));
  return [formatRow(columns.map(({ label }) => label)), formatRow(under), ...lines.map(formatRow)].join(
    "\n",
  ) + "\n";
}

// The title of a table: the title of its fold, or else the last heading before the table, or "".
function findTitle(table) {
  const fold = table.closest("details")?.querySelector("summary");
  const headings = [...(table.closest("[role=tabpanel], .tabitem") ?? document).querySelectorAll("h2")];
  const isBefore = (each) => each.compareDocumentPosition(table) & Node.DOCUMENT_POSITION_FOLLOWING;
  return (fold ?? headings.findLast(isBefore))?.textContent.trim() ?? "";
}

// The exports of a table, for the menu Export.
function describeExports(table, file, columns, rows) {
  const name = findTitle(table) || file || "Table";
  const path = file || `vitdemo-${formatFileName(name)}`;
  const save = () => saveText(formatCsv(makeCsvRows(columns, rows)), `${path}.csv`, "text/csv");
  async function copy() {
    const isCopied = await copyText(formatMarkdown(columns, rows), `${path}.md`, "text/markdown");
    return isCopied ? "Copied." : `Saved as ${path}.md.`;
  }
  return { name, formats: { CSV: save, Markdown: copy } };
}

const drawExplanations = (pairs) =>
  markup`<details class="vd-words"><summary>About the columns</summary><dl>${
    pairs.map(([title, text]) => markup`<dt>${title}</dt><dd>${text}</dd>`)
  }</dl></details>`;

function sortRows(rows, columns, { label, direction }) {
  const column = direction === "none" ? -1 : columns.findIndex((each) => each.label === label);
  if (column < 0) return rows;
  return rows.toSorted((a, b) => compareRows(a, b, { column, direction }, columns[column].numeric));
}

// The element of a table. `order` saves { label, direction, unfolded } between redraws.
class DataTable extends HTMLElement {
  #order = {};

  set order(order) {
    this.#order = order ?? this.#order;
  }

  set value(value) {
    this.draw = () => this.#draw(value);
    this.draw();
  }

  #change(changes) {
    Object.assign(this.#order, changes);
    this.draw();
  }

  #drawHead({ label, help, ...kind }, isSorted) {
    const direction = this.#order.label === label ? this.#order.direction : "none";
    const sortByColumn = () => this.#change({ label, direction: NEXT[direction] });
    const button = markup`<button type="button" class="vd-sort" @click=${sortByColumn}>${label}</button>`;
    return markup`<th scope="col" class=${formatClasses(kind)} title=${help ?? nothing} aria-sort=${
      direction === "none" ? nothing : direction
    }>${isSorted ? button : label}</th>`;
  }

  #drawFoldButton(rows) {
    const { unfolded } = this.#order;
    return markup`<div class="vd-tools"><button type="button" class="vd-download"
      aria-expanded=${String(Boolean(unfolded))} @click=${() => this.#change({ unfolded: !unfolded })}>${
      fill(unfolded ? "Hide {rows}" : "Show {rows}", { rows })
    }</button></div>`;
  }

  #draw(value) {
    const columns = getColumns(value);
    const [rows, feet] = [value.rows ?? [], value.feet ?? []].map((all) => all.map((row) => row.map(asCell)));
    const folded = new Set((value.folded ?? []).map((i) => rows[i]));
    const sorted = sortRows(rows, columns, { direction: "none", ...this.#order });
    const shown = sorted.filter((row) => this.#order.unfolded || !folded.has(row));
    const drawRows = (all) => all.map((row) => drawRow(row, columns));
    const pairs = [
      ...columns.filter(({ help }) => help).map(({ label, help }) => [label, help]),
      ...(value.terms ?? []),
    ];
    setExports(this, () => describeExports(this, value.file, columns, [...sorted, ...feet]));
    render(
      markup`<div class=${value.tall ? "vd-scroll vd-tall" : "vd-scroll"} tabindex="0">
        <table class="vd-table">
          <thead><tr>${columns.map((column) => this.#drawHead(column, rows.length > 1))}</tr></thead>
          <tbody>${drawRows(shown)}</tbody>
          ${feet.length ? markup`<tfoot>${drawRows(feet)}</tfoot>` : nothing}
        </table>
      </div>
      ${folded.size ? this.#drawFoldButton(value.folded_label) : nothing}
      ${pairs.length ? drawExplanations(pairs) : nothing}`,
      this,
    );
  }
}
customElements.define("vd-table", DataTable);

export const drawTable = (value, order) =>
  markup`<vd-table class="vd-sheet" .order=${order} .value=${value}></vd-table>`;
