// Table of table.py: sorted by a click on a column's name, copied as Markdown, saved as CSV.
import { fill, TEXTS } from "../texts.js";
import { csv, make, saveText } from "./shared.js";

const texts = TEXTS.table;
const NEXT = { none: "ascending", ascending: "descending", descending: "none" };
const collator = new Intl.Collator("en", { numeric: true });
const asCell = (
  cell,
) => (cell !== null && typeof cell === "object" ? { text: "", ...cell } : { text: String(cell ?? "") });

// The first number in the text, or null: "> 0.999", "1,234", "−0.4", "–".
function numberIn(text) {
  const found = /[-+]?\d*\.?\d+(e[-+]?\d+)?/i.exec(text.replaceAll("−", "-").replaceAll(",", ""));
  return found ? Number(found[0]) : null;
}
const numberOf = (cell) => cell.value ?? numberIn(cell.text);

// Columns as { label, help, numeric }; the first one holds the names of the rows.
const columnsOf = (value) =>
  value.columns.map((
    column,
    i,
  ) => (typeof column === "object" ? column : { label: String(column), numeric: i > 0 }));

function compared(a, b, { column, direction }, numeric) {
  const [one, other] = [a, b].map((row) => (numeric ? numberOf(row[column]) : row[column].text));
  if (one === null || other === null) return (one === null) - (other === null); // missing values are last in both directions
  const order = numeric ? one - other : collator.compare(one, other);
  return direction === "descending" ? -order : order;
}

function bar({ bar: share, interval, text }) {
  const clamp = (number) => Math.min(Math.max(100 * number, 0), 100);
  const track = make("span", { className: "vd-track" }, make("i", { style: `width: ${clamp(share)}%` }));
  if (interval && interval[0] !== null) {
    const [left, right] = interval.map(clamp);
    track.append(make("u", { style: `left: ${left}%; width: ${Math.max(right - left, 0.5)}%` }));
  }
  return make("div", { className: "vd-bar" }, track, make("b", { text }));
}

function content(cell) {
  if (cell.bar !== undefined) return bar(cell);
  return cell.strong ? make("b", { text: cell.text }) : cell.text;
}

const looks = ({ numeric, hidden } = {}) =>
  [numeric ? "" : "vd-text", hidden ? "vd-hidden" : ""].join(" ").trim() || null;

function line(cells, columns) {
  return make(
    "tr",
    {},
    ...cells.map((cell, i) => {
      const properties = { className: looks(columns[i]), ...(i ? {} : { scope: "row" }) };
      const note = cell.note ? make("small", { text: cell.note }) : null;
      return make(i ? "td" : "th", properties, content(cell), note);
    }),
  );
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
  const plain = (
    text,
  ) => (/^[-+−]?[\d,]+(\.\d+)?$/.test(text) ? numberIn(text) : text.replaceAll("−", "-").replace(/^–$/, ""));
  const short = (number) => (Number.isInteger(number) ? number : Number(number.toPrecision(6)));
  const value = (cell) => (cell.value === undefined ? plain(cell.text) : short(cell.value));
  const ends = (cell) => (cell.interval ?? [null, null]).map((end) => (end === null ? "" : short(end)));
  return [head, ...rows.map((row) => [...row.map(value), ...spread.flatMap((i) => ends(row[i]))])];
}

function markdown(columns, rows) {
  const words = (cells) => `| ${cells.map((text) => text.replaceAll("|", "\\|")).join(" | ")} |`;
  const under = columns.map(({ numeric }) => (numeric ? "---:" : "---"));
  const lines = rows.map((row) => row.map(({ text, note }) => (note ? `${text} (${note})` : text)));
  return [words(columns.map(({ label }) => label)), words(under), ...lines.map(words)].join("\n") + "\n";
}

function tools(file, columns, rows) {
  const told = make("span", { className: "vd-told", role: "status" });
  const copy = make("button", { type: "button", className: "vd-download", text: texts.copy });
  copy.addEventListener("click", async () => {
    const text = markdown(columns, rows());
    try {
      await navigator.clipboard.writeText(text);
      told.textContent = texts.copied;
    } catch { // the clipboard requires HTTPS
      saveText(text, `${file}.md`, "text/markdown");
      told.textContent = fill(texts.saved, { file: `${file}.md` });
    }
  });
  const save = make("button", { type: "button", className: "vd-download", text: TEXTS.shared.download_csv });
  save.addEventListener("click", () => saveText(csv(exported(columns, rows())), `${file}.csv`, "text/csv"));
  return make("div", { className: "vd-tools" }, copy, save, told);
}

function explanations(pairs) {
  const items = pairs.flatMap(([title, text]) => [make("dt", { text: title }), make("dd", { text })]);
  return make(
    "details",
    { className: "vd-words" },
    make("summary", { text: texts.explanation }),
    make("dl", {}, ...items),
  );
}

// `order` saves { label, direction, unfolded } between redraws.
export function table(value, order = {}) {
  const columns = columnsOf(value);
  const [rows, feet] = [value.rows ?? [], value.feet ?? []].map((all) => all.map((row) => row.map(asCell)));
  const lines = new Map(rows.map((row) => [row, line(row, columns)]));
  const folded = new Set((value.folded ?? []).map((i) => rows[i]));
  const body = make("tbody");
  let sorted = rows;
  const heads = columns.map(({ label, help, ...kind }) => {
    const place = make("th", { scope: "col", className: looks(kind), title: help });
    if (rows.length < 2) place.textContent = label;
    else {
      const button = make("button", { type: "button", className: "vd-sort", text: label });
      button.addEventListener("click", () => {
        const direction = NEXT[order.label === label ? order.direction : "none"];
        sort(Object.assign(order, { label, direction }));
      });
      place.append(button);
    }
    return place;
  });
  function sort({ label, direction }) {
    const column = direction === "none" ? -1 : columns.findIndex((each) => each.label === label);
    sorted = column < 0
      ? rows
      : [...rows].sort((a, b) => compared(a, b, { column, direction }, columns[column].numeric));
    body.replaceChildren(
      ...sorted.filter((row) => order.unfolded || !folded.has(row)).map((row) => lines.get(row)),
    );
    heads.forEach((
      head,
      i,
    ) => (i === column ? head.setAttribute("aria-sort", direction) : head.removeAttribute("aria-sort")));
  }
  sort(order);
  function unfolding() {
    const button = make("button", { type: "button", className: "vd-download" });
    const told = () => {
      button.textContent = fill(order.unfolded ? texts.hide : texts.show, { rows: value.folded_words });
      button.setAttribute("aria-expanded", String(Boolean(order.unfolded)));
    };
    button.addEventListener("click", () => {
      order.unfolded = !order.unfolded;
      sort(order);
      told();
    });
    told();
    return make("div", { className: "vd-tools" }, button);
  }
  const foot = feet.length ? make("tfoot", {}, ...feet.map((row) => line(row, columns))) : null;
  const drawn = make(
    "table",
    { className: "vd-table" },
    make("thead", {}, make("tr", {}, ...heads)),
    body,
    foot,
  );
  const box = make("div", { className: value.tall ? "vd-scroll vd-tall" : "vd-scroll", tabIndex: 0 }, drawn);
  const pairs = [
    ...columns.filter(({ help }) => help).map(({ label, help }) => [label, help]),
    ...(value.words ?? []),
  ];
  return make(
    "div",
    { className: "vd-sheet" },
    box,
    folded.size ? unfolding() : null,
    value.file ? tools(value.file, columns, () => [...sorted, ...feet]) : null,
    pairs.length ? explanations(pairs) : null,
  );
}
