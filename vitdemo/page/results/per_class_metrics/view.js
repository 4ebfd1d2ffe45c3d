// Dot plot of precision and recall: a button per class, worst class first. A chosen class shows its curves.
import { documentIn } from "../../components/documents.js";
import { make, rove } from "../../components/shared.js";
import * as store from "../../store.js";
import { TEXTS } from "../../texts.js";

const texts = TEXTS.per_class_metrics;
const MODELS = ["results.model", "results.other"];
const CLASSES = "metrics.classes";

store.defineDocument("paired_test", [...MODELS]);
store.defineDocument("ranking_curves", [...MODELS, CLASSES], { skeleton: "figures" });

function svg(tag, properties, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(properties)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// Marks of one metric: the chosen model above the compared model, which is hollow.
function strip(marks, { ticks, models }) {
  const at = (value) => `${(100 * (value - ticks[0])) / (1 - ticks[0])}%`;
  const grid = ticks.map((tick) =>
    svg("line", { class: "grid", x1: at(tick), x2: at(tick), y1: 0, y2: "100%" })
  );
  const drawn = marks.flatMap((mark, i) => {
    if (!mark) return [];
    const [value, low, high] = mark;
    const y = models.length > 1 ? ["34%", "70%"][i] : "50%";
    const whisker = svg("line", { class: "whisker", x1: at(low), x2: at(high), y1: y, y2: y });
    return [whisker, svg("circle", { class: i ? "other" : "chosen", cx: at(value), cy: y, r: 4.5 })];
  });
  return svg("svg", { "aria-hidden": "true" }, ...grid, ...drawn);
}

const label = (tick, i, ticks) =>
  make("span", { text: String(tick), style: `left: ${(100 * i) / (ticks.length - 1)}%` });

function head({ metrics, models }) {
  const dots = models.length > 1
    ? models.map((name, i) =>
      make("span", { className: "model" }, make("i", { className: i ? "other" : "chosen" }), name)
    )
    : [];
  return make(
    "div",
    { className: "head" },
    make("span", { className: "models" }, ...dots),
    ...metrics.map((text) => make("b", { text })),
  );
}

function axis({ metrics, ticks }) {
  return make(
    "div",
    { className: "axis", "aria-hidden": "true" },
    make("span"),
    ...metrics.map(() => make("span", { className: "ticks" }, ...ticks.map(label))),
  );
}

function row(each, plot) {
  const { name, isTested, spoken, marks } = each;
  const made = make(
    "button",
    { type: "button", "data-pick": name, "aria-label": spoken, disabled: !isTested },
    make("span", { className: "name", text: name }),
    ...marks.map((several) => strip(several, plot)),
  );
  made.addEventListener("click", () => {
    store.choose(CLASSES, [name]);
    store.showControl(CLASSES, { value: [name] });
  });
  return made;
}

// The values of the class under the pointer or with the focus stand below the plot.
function plotIn(place) {
  const words = make("p", { className: "reading" });
  const rows = make("div", { className: "rows", role: "group", "aria-label": texts.plot });
  const buttons = () => [...rows.children];
  const settle = rove(rows, buttons, () => 1);
  const say = ({ target }) => {
    words.textContent = target.closest("button")?.ariaLabel ?? texts.hint;
  };
  for (const event of ["pointerover", "focusin"]) rows.addEventListener(event, say);
  for (const event of ["pointerleave", "focusout"]) {
    rows.addEventListener(event, () => {
      words.textContent = texts.hint;
    });
  }
  let drawn = null;

  return (plot, chosen) => {
    if (plot !== drawn) {
      const focused = rows.contains(document.activeElement) ? document.activeElement.dataset.pick : undefined;
      rows.replaceChildren(...(plot?.rows ?? []).map((each) => row(each, plot)));
      rows.classList.toggle("two", plot?.models.length > 1);
      words.textContent = texts.hint;
      place.replaceChildren(...(plot ? [head(plot), rows, axis(plot), words] : []));
      buttons().find((button) => button.dataset.pick === focused)?.focus({ preventScroll: true });
      drawn = plot;
    }
    const shown = chosen[0] === "" ? [plot?.rows[0]?.name] : chosen; // before a choice, the curves show the worst class
    for (const button of buttons()) {
      button.setAttribute("aria-pressed", String(shown.includes(button.dataset.pick)));
    }
    if (plot) {
      settle(
        buttons().find((button) => button.tabIndex === 0 && button === document.activeElement) ??
          buttons()[0],
      );
    }
  };
}

store.define("class_metrics", {
  skeleton: "rows",
  needs: MODELS,
  follows: [CLASSES],
  create(element) {
    const [summary, plot, details] = ["article", "vd-dots", "article"].map((className) =>
      make("div", { className })
    );
    element.append(summary, plot, details);
    const [drawSummary, drawPlot, drawDetails] = [documentIn(summary), plotIn(plot), documentIn(details)];
    function draw({ summary: blocks, plot: values, details: folds }, chosen) {
      drawSummary(blocks);
      drawPlot(values, chosen);
      drawDetails(folds);
    }
    return {
      render: (data, state) => draw(data, state[CLASSES]),
      showError: (text) => draw({ summary: [{ kind: "Notice", text }], plot: null, details: [] }, []),
    };
  },
});
