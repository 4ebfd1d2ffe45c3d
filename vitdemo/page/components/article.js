// Draws the pieces of article.py, each by the function of its kind. Buttons give the event "pick".
const { csv, make, newest, notice, pictures, saveText, table } = vitdemo;
const place = element.querySelector(".article");
const sorted = {}; // how each table was sorted, by its place among the tables: outlives a redraw
const asked = newest();
let picked = null;
let tables = 0;

function pick(name) {
  picked = name;
  trigger("pick", asked({ pick: name }));
}

// **strong** words and `code`; everything else is text.
function marked(text) {
  return text.split(/(\*\*.+?\*\*|`[^`]+`)/).map((part) => {
    if (/^\*\*.+\*\*$/.test(part)) return make("strong", { text: part.slice(2, -2) });
    return /^`.+`$/.test(part) ? make("code", { text: part.slice(1, -1) }) : part;
  });
}

function line({ words, colour, dashed }) {
  const stroke = colour ? make("i", { className: dashed ? "vd-dashed" : null, style: `color: ${colour}` }) : null;
  return make("span", {}, stroke, words);
}

function figure({ title, label, svg, lines = [], words }) {
  const drawing = make("div");
  drawing.innerHTML = svg; // matplotlib's, with every name in it escaped
  return make("figure", { "aria-label": label }, make("figcaption", { text: title }),
    lines.length ? make("p", { className: "vd-curves" }, ...lines.map(line)) : null,
    words ? make("p", {}, ...marked(words)) : null, drawing);
}

function download({ words, file, header, rows = [] }) {
  const made = make("button", { type: "button", className: "vd-download", text: words });
  made.addEventListener("click", () => saveText(csv([header, ...rows]), `${file}.csv`, "text/csv"));
  return make("p", {}, made);
}

const KINDS = {
  Heading: ({ text }) => make("h2", { text }),
  Text: ({ text, quiet }) => make("p", { className: quiet ? "quiet" : null }, ...marked(text)),
  Notice: ({ text }) => notice(text),
  Bullets: ({ items = [] }) => make("ul", {}, ...items.map((text) => make("li", {}, ...marked(text)))),
  Legend: ({ groups = [] }) => make("div", { className: "vd-curves" },
    ...groups.map(([title, lines]) => make("span", {}, title ? make("strong", { text: title }) : null, ...lines.map(line)))),
  Figure: figure,
  Plots: ({ figures = [] }) => make("div", { className: "vd-plots" }, ...figures.map(figure)),
  Choices: ({ items = [] }) => make("ol", {}, ...items.map(([name, text]) => {
    const button = make("button", { type: "button", text, "data-pick": name });
    button.addEventListener("click", () => pick(name));
    return make("li", {}, button);
  })),
  Download: download,
  Folded: ({ title, pieces = [] }) => make("details", {}, make("summary", { text: title }), ...pieces.map(drawn)),
  Pictures: (value) => pictures(value, pick),
  Table: (value) => table(value, { pick, order: (sorted[value.file || tables++] ??= {}) }),
};
const drawn = (piece) => KINDS[piece.kind](piece);

function draw() {
  const back = picked !== null && place.contains(document.activeElement);
  const open = new Set([...place.querySelectorAll("details[open] > summary")].map((summary) => summary.textContent));
  tables = 0;
  place.replaceChildren(...(props.value || []).map(drawn));
  for (const summary of place.querySelectorAll("summary")) if (open.has(summary.textContent)) summary.parentElement.open = true;
  const again = [...place.querySelectorAll("[data-pick]")].find((button) => button.dataset.pick === picked);
  if (back) again?.focus({ preventScroll: true });
}
watch("value", draw);
draw();
