// Results of the classifier: accuracy, coloured confusion matrix, and the misclassified images next to it. A click on a
// cell of the matrix shows only its images.
import { make, marked, notice, redraw, rove } from "../components/shared.js";
import { table } from "../components/table.js";
import * as store from "../store.js";
import { fill, fillPlural, TEXTS } from "../texts.js";

const texts = TEXTS.custom_classes;
const STRONGEST = 55; // percent of colour, so that the text has a contrast above 5 in both themes

const shade = (isCorrect, share) => {
  const colour = isCorrect ? "#1d4ed8" : "#c2410c";
  return `background: color-mix(in srgb, ${colour} ${Math.round(STRONGEST * share)}%, transparent)`;
};

// The matrix, whose cells of errors are buttons; `choose` is called with true and predicted class.
function matrixOf({ classes, matrix }, chosen, choose) {
  const most = Math.max(1, ...matrix.flatMap((row, i) => row.filter((_, j) => i !== j))); // of the errors, which are few
  const cell = (count, i, j) => {
    const total = matrix[i].reduce((sum, each) => sum + each, 0);
    const label = fill(texts.cell, { count, total, true: classes[i], predicted: classes[j] });
    const style = shade(i === j, i === j ? count / Math.max(total, 1) : count / most);
    if (i === j || !count) return make("td", { text: count, title: label, style });
    const isChosen = chosen?.join() === `${i},${j}`;
    const button = make("button", {
      type: "button",
      text: count,
      title: label,
      "aria-label": label,
      "aria-pressed": String(isChosen),
      "data-pick": `${i}-${j}`,
    });
    button.addEventListener("click", () => choose(isChosen ? null : [i, j]));
    return make("td", { style }, button);
  };
  const head = [texts.corner, ...classes].map((text) => make("th", { text, scope: "col" }));
  const rows = matrix.map((row, i) =>
    make(
      "tr",
      {},
      make("th", { text: classes[i], scope: "row" }),
      ...row.map((count, j) => cell(count, i, j)),
    )
  );
  const drawn = make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows));
  const buttons = [...drawn.querySelectorAll("button")];
  if (buttons.length) rove(drawn, () => buttons, () => buttons.length)(buttons[0]);
  return make("div", {
    className: "vd-scroll",
    tabIndex: buttons.length ? null : 0,
    role: "group",
    "aria-label": texts.matrix,
  }, drawn);
}

// The misclassified images of the chosen cell, or all.
function errorsOf({ classes, errors, error_count: count, sheet }, chosen, choose) {
  if (!count) return [make("p", { text: texts.no_errors })];
  const figures = errors.map(({ true: truth, predicted, confidence }, at) => {
    if (chosen && (chosen[0] !== truth || chosen[1] !== predicted)) return null;
    const names = { true: classes[truth], predicted: classes[predicted] };
    const along = errors.length > 1 ? (100 * at) / (errors.length - 1) : 0;
    const style = `background-image: url("${sheet.url}"); background-size: ${
      100 * errors.length
    }% 100%; background-position: ${along}% 0`;
    return make(
      "figure",
      {},
      make("div", { className: "vd-cut", role: "img", "aria-label": fill(texts.error, names), style }),
      make("figcaption", {}, fill(texts.caption, names), make("small", { text: ` ${confidence}` })),
    );
  });
  const all = make("button", { type: "button", className: "vd-download", text: texts.show_all });
  all.addEventListener("click", () => choose(null));
  return [
    make("h3", { text: fillPlural(texts, "errors", count) }),
    make("div", { className: "vd-row", style: "--vd-width: 84px" }, ...figures),
    chosen ? all : null,
  ];
}

function metricsOf({ metrics }) {
  const columns = [
    texts.class_column,
    texts.precision_column,
    texts.recall_column,
    texts.f1_column,
    texts.images_column,
  ];
  return make(
    "details",
    {},
    make("summary", { text: texts.metrics }),
    table({ columns, rows: metrics, file: "own-metrics" }, {}),
  );
}

store.define("custom_classes_result", {
  needs: [],
  create(element) {
    element.classList.add("article");
    let [drawn, chosen] = [null, null]; // the drawn payload, and the chosen cell of the matrix

    function choose(cell) {
      chosen = cell;
      draw();
    }

    function draw() {
      const { about = [], accuracy, sample, told, untested, warning } = drawn;
      if (!told) return element.replaceChildren();
      const help = make(
        "details",
        {},
        make("summary", { text: texts.about }),
        ...about.map((text) => make("p", {}, ...marked(text))),
      );
      const end = [help, make("p", { className: "quiet", role: "status", text: told })];
      if (untested) return redraw(element, make("p", { role: "status" }, ...marked(untested)), ...end);
      const errors = make("div", { className: "errors" }, ...errorsOf(drawn, chosen, choose).filter(Boolean));
      redraw(
        element,
        make(
          "p",
          { className: "accuracy", role: "status" },
          make("strong", { text: accuracy }),
          ` ${sample}`,
        ),
        ...(warning ? [notice(warning)] : []),
        make(
          "div",
          { className: "pair" },
          make("div", {}, make("h3", { text: texts.matrix }), matrixOf(drawn, chosen, choose)),
          errors,
        ),
        metricsOf(drawn),
        ...end,
      );
    }

    return {
      render(data) {
        if (data !== drawn) chosen = null;
        drawn = data;
        draw();
      },
    };
  },
});
