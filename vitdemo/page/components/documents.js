// Documents: the blocks of vitdemo/documents, each drawn with the function of its kind.
import { TEXTS } from "../texts.js";
import { mapRow } from "./maps.js";
import { pictures } from "./pictures.js";
import { csv, make, marked, notice, probability, redraw, saveText } from "./shared.js";
import { table } from "./table.js";

function line({ words, colour, dashed }) {
  const stroke = colour
    ? make("i", { className: dashed ? "vd-dashed" : null, style: `color: ${colour}` })
    : null;
  return make("span", {}, stroke, words);
}

function figure({ title, label, svg, lines = [], words }) {
  const drawing = make("div");
  drawing.innerHTML = svg; // from matplotlib, with all names escaped
  return make(
    "figure",
    { "aria-label": label },
    make("figcaption", { text: title }),
    lines.length ? make("p", { className: "vd-curves" }, ...lines.map(line)) : null,
    words ? make("p", {}, ...marked(words)) : null,
    drawing,
  );
}

function download({ words, file, header, rows = [] }) {
  const made = make("button", { type: "button", className: "vd-download", text: words });
  made.addEventListener("click", () => saveText(csv([header, ...rows]), `${file}.csv`, "text/csv"));
  return make("p", { className: "save" }, made);
}

// Row of a class: probability before (thin bar) and now (thick bar), and the difference.
function move([name, before, now]) {
  const difference = 100 * (now - before);
  const still = Math.abs(difference) < 0.05;
  const points = still ? "±0.0" : (difference > 0 ? "+" : "−") + Math.abs(difference).toFixed(1);
  const bars = [before, now].map((share) => make("i", { style: `width: ${100 * share}%` }));
  return make(
    "tr",
    {},
    make("th", { scope: "row", text: name }),
    make("td", { className: "bars" }, ...bars),
    ...[before, now].map((share) => make("td", { text: probability(share) })),
    make("td", { className: still ? "points" : difference > 0 ? "points up" : "points down", text: points }),
  );
}

function moved({ title, rows = [], heads }) {
  const head = ["", "", ...heads, TEXTS.documents.change].map((text) =>
    make(text ? "th" : "td", text ? { scope: "col", text } : {})
  );
  return make(
    "section",
    { className: "card" },
    make("h3", {}, ...marked(title)),
    make(
      "table",
      { className: "moved" },
      make("thead", {}, make("tr", {}, ...head)),
      make("tbody", {}, ...rows.map(move)),
    ),
  );
}

// Return a function that draws blocks in `place`. A pressed button calls `pick` with its name.
export function documentIn(place, pick = () => {}) {
  const sorted = {}; // sort order of each table by file or index, which survives a redraw
  let tables = 0;
  const KINDS = {
    Heading: ({ text }) => make("h2", { text }),
    Text: ({ text, quiet, told }) =>
      make("p", { className: quiet ? "quiet" : null, role: told ? "status" : null }, ...marked(text)),
    Notice: ({ text }) => notice(text),
    Bullets: ({ items = [] }) => make("ul", {}, ...items.map((text) => make("li", {}, ...marked(text)))),
    Legend: ({ groups = [] }) =>
      make(
        "div",
        { className: "vd-curves" },
        ...groups.map(([title, lines]) =>
          make("span", {}, title ? make("strong", { text: title }) : null, ...lines.map(line))
        ),
      ),
    Figure: figure,
    Plots: ({ figures = [] }) => make("div", { className: "vd-plots" }, ...figures.map(figure)),
    ProbabilityChange: moved,
    PickList: ({ items = [] }) =>
      make(
        "ol",
        {},
        ...items.map(([name, text]) => {
          const button = make("button", { type: "button", text, "data-pick": name });
          button.addEventListener("click", () => pick(name));
          return make("li", {}, button);
        }),
      ),
    Download: download,
    Details: ({ title, pieces = [] }) =>
      make("details", {}, make("summary", { text: title }), ...pieces.map(drawn)),
    ImageRow: (value) => pictures(value, pick),
    MapRow: mapRow,
    Table: (value) => table(value, sorted[value.file || tables++] ??= {}),
  };
  const drawn = (block) => KINDS[block.kind](block);
  return (blocks) => {
    tables = 0;
    redraw(place, ...blocks.map(drawn));
  };
}
