// Confusion matrix of buttons with arrow-key navigation. At its right are the images of the chosen cell; without a
// cell, a list of the largest errors. The cell is a text of the view state: true and predicted class.
import { documentIn } from "../../components/documents.js";
import { defineGallery, galleryIn } from "../../components/gallery.js";
import { csv, make, notice, redraw, rove, saveText } from "../../components/shared.js";
import * as store from "../../store.js";
import { fill, TEXTS } from "../../texts.js";

const texts = TEXTS.confusion_matrix;
const MODELS = ["results.model", "results.other"];
const SETTINGS = [...MODELS, "confusion.unit", "confusion.errors_only"];
const MAX_CELL = 400; // characters of the two class names

store.defineParam("confusion.cell", { parse: (text) => text.slice(0, MAX_CELL) });
defineGallery("confusion", [...MODELS, "confusion.cell"]);

const encode = ({ classes }, i, j) => `${classes[i]},${classes[j]}`;
let scrolls = false; // whether the user has chosen a cell whose images have not arrived yet

function choose(cell) {
  const isNew = cell !== store.state["confusion.cell"];
  if (isNew) store.set({ "confusion.cell": cell });
  else scrollToImages();
  scrolls = isNew;
}

// Scroll as little as necessary: the chosen cell stays visible.
function scrollToImages() {
  requestAnimationFrame(() =>
    document.querySelector("#cell-pictures .pictures > *")?.scrollIntoView({ block: "nearest" })
  );
}

function button(cell, properties) {
  const made = make("button", { type: "button", ...properties });
  made.addEventListener("click", () => choose(cell));
  return made;
}

// At most 55% colour, so that the text has a contrast above 5:1 in the light and the dark theme.
const shade = (colour, strength) =>
  `background: color-mix(in srgb, ${colour} ${Math.round(55 * Math.min(strength, 1))}%, transparent)`;

function cell(value, i, j) {
  const [strength, words] = [value.strengths[i][j], value.spoken[i][j]];
  const wrong = strength > 0 ? "#c2410c" : "#7c4fd0"; // orange: positive, purple: negative
  const colour = value.signed || i !== j ? wrong : "#1d4ed8";
  const made = button(encode(value, i, j), {
    className: value.values[i][j] ? "vd-cell" : "vd-cell zero",
    text: value.texts[i][j],
    "data-pick": `${i}-${j}`,
    "aria-label": words,
    title: words,
  });
  return make("td", { style: shade(colour, Math.abs(strength)) }, made);
}

function table(value) {
  const { classes } = value;
  const head = [texts.corner, ...classes].map((text) => make("th", { text, scope: "col" }));
  const rows = classes.map((text, i) =>
    make("tr", {}, make("th", { text, scope: "row" }), ...classes.map((_, j) => cell(value, i, j)))
  );
  return make(
    "table",
    { className: "vd-table", style: `--classes: ${classes.length}` },
    make("thead", {}, make("tr", {}, ...head)),
    make("tbody", {}, ...rows),
  );
}

function save(value) {
  const made = make("button", { type: "button", className: "vd-download", text: TEXTS.shared.download_csv });
  const rows = [
    [texts.corner, ...value.classes],
    ...value.classes.map((name, i) => [name, ...value.values[i]]),
  ];
  made.addEventListener("click", () => saveText(csv(rows), `${value.file}.csv`, "text/csv"));
  return made;
}

function pairs({ run, pairs: all }) {
  const items = all.map(({ cell, pick, text }) => make("li", {}, button(cell, { text, "data-pick": pick })));
  return [
    make("h2", { text: fill(texts.pairs, { run }) }),
    items.length ? make("ol", {}, ...items) : make("p", { text: texts.no_errors }),
    make("p", { className: "quiet", text: texts.hint }),
  ];
}

store.define("confusion_matrix", {
  skeleton: "tiles",
  needs: SETTINGS,
  follows: ["confusion.cell"],
  create(element) {
    let [drawn, settle] = [null, null]; // the drawn payload, and the function of `rove`
    const cells = () => [...element.querySelectorAll(".vd-cell")];

    function draw(value) {
      drawn = value;
      const drawing = table(value);
      settle = rove(drawing, cells, () => value.classes.length);
      const words = value.words.map((text) => make("p", { className: "quiet", text }));
      redraw(element, make("div", { className: "vd-scroll" }, drawing), ...words, save(value));
    }

    return {
      render(value, state) {
        if (value !== drawn) draw(value);
        const chosen = cells().filter((made, at) => {
          const pressed = state["confusion.cell"] ===
            encode(value, Math.floor(at / value.classes.length), at % value.classes.length);
          made.setAttribute("aria-pressed", String(pressed));
          return pressed;
        });
        settle(chosen[0] ?? cells()[0]);
      },
      showError(message) {
        drawn = null;
        element.replaceChildren(notice(message));
      },
    };
  },
});

store.define("confusion_cell", {
  needs: [...MODELS, "confusion.unit", "confusion.cell", "confusion.page"],
  follows: ["confusion.all_models"],
  create(element) {
    const title = make("div", { id: "cell-title", className: "article" });
    const back = button("", { className: "back", text: texts.back, hidden: true });
    const list = make("div", { className: "pairs" });
    element.append(list, back, title);
    const [drawTitle, drawPictures] = [documentIn(title), galleryIn(element, "confusion")];
    function draw(data, state) {
      const { title: blocks = [], pictures = null } = data;
      redraw(list, ...(data.pairs ? pairs(data) : []));
      back.hidden = !pictures;
      drawTitle(blocks);
      drawPictures(pictures, state);
      if (scrolls) scrollToImages();
      scrolls = false;
    }
    return {
      render: draw,
      showError: () => draw({}), // confusion_matrix shows the message
    };
  },
});
