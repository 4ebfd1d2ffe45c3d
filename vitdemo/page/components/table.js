// Table of table.py: sorted by a click on a column's name, copied as Markdown, saved as CSV.
import { markup, nothing, render } from "../markup.js";
import { fill, TEXTS } from "../texts.js";
import { actionButton, copyText, csv, saveText } from "./shared.js";

const texts = TEXTS.table;
const NEXT = { none: "ascending", ascending: "descending", descending: "none" };
const collator = new Intl.Collator("en", { numeric: true });
const asCell = (cell) =>
  cell !== null && typeof cell === "object" ? { text: "", ...cell } : { text: String(cell ?? "") };

// The first number in the text, or null: "> 0.999", "1,234", "−0.4", "–".
function numberIn(text) {
  const found = /[-+]?\d*\.?\d+(e[-+]?\d+)?/i.exec(text.replaceAll("−", "-").replaceAll(",", ""));
  return found ? Number(found[0]) : null;
}
const numberOf = (cell) => cell.value ?? numberIn(cell.text);

// Columns as { label, help, numeric }; the first one holds the names of the rows.
const columnsOf = (value) =>
  value.columns.map((column, i) =>
    typeof column === "object" ? column : { label: String(column), numeric: i > 0 }
  );

function compared(a, b, { column, direction }, numeric) {
  const [one, other] = [a, b].map((row) => (numeric ? numberOf(row[column]) : row[column].text));
  if (one === null || other === null) return (one === null) - (other === null); // missing values are last in both directions
  const order = numeric ? one - other : collator.compare(one, other);
  return direction === "descending" ? -order : order;
}

function bar({ bar: share, interval, text }) {
  const clamp = (number) => Math.min(Math.max(100 * number, 0), 100);
  const [left, right] = (interval ?? []).map(clamp);
  const whisker = () => markup`<u style="left: ${left}%; width: ${Math.max(right - left, 0.5)}%"></u>`;
  const hasInterval = interval && interval[0] !== null;
  return markup`<div class="vd-bar"><span class="vd-track"><i style="width: ${clamp(share)}%"></i>${
    hasInterval ? whisker() : nothing
  }</span><b>${text}</b></div>`;
}

function content(cell) {
  const value = cell.bar !== undefined ? bar(cell) : cell.strong ? markup`<b>${cell.text}</b>` : cell.text;
  return cell.note ? markup`${value}<small>${cell.note}</small>` : value;
}

const looks = ({ numeric, hidden } = {}) =>
  [numeric ? "" : "vd-text", hidden ? "vd-hidden" : ""].join(" ").trim() || nothing;

function line(cells, columns) {
  const [name, ...others] = cells.map(content);
  return markup`<tr><th class=${looks(columns[0])} scope="row">${name}</th>${
    others.map((each, i) => markup`<td class=${looks(columns[i + 1])}>${each}</td>`)
  }</tr>`;
}

// Rows of the CSV file; an interval adds two columns.
function exported(columns, rows) {
  const wide = columns.map((_, i) => rows.some((row) => row[i].interval));
  const spread = wide.flatMap((is, i) => (is ? [i] : []));
  const head = [
    ...columns.map(({ label }) => label),
    ...spread.flatMap((i) =>
      [texts.low_end, texts.high_end].map((end) => fill(end, { column: columns[i].label }))
    ),
  ];
  const plain = (text) =>
    /^[-+−]?[\d,]+(\.\d+)?$/.test(text) ? numberIn(text) : text.replaceAll("−", "-").replace(/^–$/, "");
  const short = (number) => (Number.isInteger(number) ? number : Number(number.toPrecision(6)));
  const value = (cell) => (cell.value === undefined ? plain(cell.text) : short(cell.value));
  const ends = (cell) => (cell.interval ?? [null, null]).map((end) => (end === null ? "" : short(end)));
  return [head, ...rows.map((row) => [...row.map(value), ...spread.flatMap((i) => ends(row[i]))])];
}

function markdown(columns, rows) {
  const escape = (text) => text.replaceAll("\\", "\\\\").replaceAll("|", "\\|").replace(/\s+/g, " ");
  const words = (cells) => `| ${cells.map(escape).join(" | ")} |`;
  const under = columns.map(({ numeric }) => (numeric ? "---:" : "---"));
  const lines = rows.map((row) => row.map(({ text, note }) => (note ? `${text} (${note})` : text)));
  return [words(columns.map(({ label }) => label)), words(under), ...lines.map(words)].join("\n") + "\n";
}

// Buttons that copy and save the table. `tell` is called with a message about the copy, which is then shown as `told`.
function tools(file, columns, rows, told, tell) {
  async function copy() {
    const isCopied = await copyText(markdown(columns, rows), `${file}.md`, "text/markdown");
    tell(isCopied ? texts.copied : fill(texts.saved, { file: `${file}.md` }));
  }
  const save = () => saveText(csv(exported(columns, rows)), `${file}.csv`, "text/csv");
  return markup`<div class="vd-tools">
    ${actionButton(texts.copy, copy)} ${actionButton(TEXTS.shared.download_csv, save)}
    <span class="vd-told" role="status">${told ?? ""}</span>
  </div>`;
}

const explanations = (pairs) =>
  markup`<details class="vd-words"><summary>${texts.explanation}</summary><dl>${
    pairs.map(([title, text]) => markup`<dt>${title}</dt><dd>${text}</dd>`)
  }</dl></details>`;

function sort(rows, columns, { label, direction }) {
  const column = direction === "none" ? -1 : columns.findIndex((each) => each.label === label);
  if (column < 0) return rows;
  return rows.toSorted((a, b) => compared(a, b, { column, direction }, columns[column].numeric));
}

// The element of a table. `order` saves { label, direction, unfolded } between redraws.
class DataTable extends HTMLElement {
  #order = {};

  set order(order) {
    this.#order = order ?? this.#order;
  }

  set value(value) {
    this.draw = () => this.#draw(value);
    delete this.#order.told;
    this.draw();
  }

  #change(changes) {
    Object.assign(this.#order, changes);
    this.draw();
  }

  #head({ label, help, ...kind }, isSorted) {
    const direction = this.#order.label === label ? this.#order.direction : "none";
    const sorts = () => this.#change({ label, direction: NEXT[direction] });
    const button = markup`<button type="button" class="vd-sort" @click=${sorts}>${label}</button>`;
    return markup`<th scope="col" class=${looks(kind)} title=${help ?? nothing} aria-sort=${
      direction === "none" ? nothing : direction
    }>${isSorted ? button : label}</th>`;
  }

  #unfolding(rows) {
    const { unfolded } = this.#order;
    return markup`<div class="vd-tools"><button type="button" class="vd-download"
      aria-expanded=${String(Boolean(unfolded))} @click=${() => this.#change({ unfolded: !unfolded })}>${
      fill(unfolded ? texts.hide : texts.show, { rows })
    }</button></div>`;
  }

  #draw(value) {
    const columns = columnsOf(value);
    const [rows, feet] = [value.rows ?? [], value.feet ?? []].map((all) => all.map((row) => row.map(asCell)));
    const folded = new Set((value.folded ?? []).map((i) => rows[i]));
    const sorted = sort(rows, columns, { direction: "none", ...this.#order });
    const shown = sorted.filter((row) => this.#order.unfolded || !folded.has(row));
    const lines = (all) => all.map((row) => line(row, columns));
    const pairs = [
      ...columns.filter(({ help }) => help).map(({ label, help }) => [label, help]),
      ...(value.words ?? []),
    ];
    const all = [...sorted, ...feet];
    render(
      markup`<div class=${value.tall ? "vd-scroll vd-tall" : "vd-scroll"} tabindex="0">
        <table class="vd-table">
          <thead><tr>${columns.map((column) => this.#head(column, rows.length > 1))}</tr></thead>
          <tbody>${lines(shown)}</tbody>
          ${feet.length ? markup`<tfoot>${lines(feet)}</tfoot>` : nothing}
        </table>
      </div>
      ${folded.size ? this.#unfolding(value.folded_words) : nothing}
      ${
        value.file
          ? tools(value.file, columns, all, this.#order.told, (told) => this.#change({ told }))
          : nothing
      }
      ${pairs.length ? explanations(pairs) : nothing}`,
      this,
    );
  }
}
customElements.define("vd-table", DataTable);

export const table = (value, order) =>
  markup`<vd-table class="vd-sheet" .order=${order} .value=${value}></vd-table>`;
