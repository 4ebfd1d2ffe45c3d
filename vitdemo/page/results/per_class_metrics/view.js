// Dot plot of precision and recall: a button per class, worst class first. A chosen class shows its curves.
import { createDocument } from "../../components/documents.js";
import { createRoving, setTabStop } from "../../components/shared.js";
import { markup, nothing, render, shapes } from "../../markup.js";
import * as store from "../../store.js";
import { TEXTS } from "../../texts.js";

const texts = TEXTS.per_class_metrics;
const CLASSES = "metrics.classes";

store.defineDocument("paired_test");
store.defineDocument("ranking_curves", { skeleton: "figures" });

// Marks of one metric: the chosen model above the compared model, which is hollow.
function strip(marks, { ticks, models }) {
  const at = (value) => `${(100 * (value - ticks[0])) / (1 - ticks[0])}%`;
  const line = (kind, x1, x2, y1, y2) =>
    shapes`<line class=${kind} x1=${x1} x2=${x2} y1=${y1} y2=${y2}></line>`;
  const drawn = marks.map((mark, i) => {
    if (!mark) return nothing;
    const [value, low, high] = mark;
    const y = models.length > 1 ? ["34%", "70%"][i] : "50%";
    return [
      line("whisker", at(low), at(high), y, y),
      shapes`<circle class=${i ? "other" : "chosen"} cx=${at(value)} cy=${y} r="4.5"></circle>`,
    ];
  });
  const grid = ticks.map((tick) => line("grid", at(tick), at(tick), "0", "100%"));
  return markup`<svg aria-hidden="true">${grid}${drawn}</svg>`;
}

const tickLabel = (tick, i, ticks) =>
  markup`<span style="left: ${(100 * i) / (ticks.length - 1)}%">${String(tick)}</span>`;

function head({ metrics, models }) {
  const dot = (name, i) => markup`<span class="model"><i class=${i ? "other" : "chosen"}></i>${name}</span>`;
  return markup`<div class="head"><span class="models">${
    models.length > 1 ? models.map(dot) : nothing
  }</span>${metrics.map((text) => markup`<b>${text}</b>`)}</div>`;
}

function axis({ metrics, ticks }) {
  const labels = () => markup`<span class="ticks">${ticks.map(tickLabel)}</span>`;
  return markup`<div class="axis" aria-hidden="true"><span></span>${metrics.map(labels)}</div>`;
}

// The button of a class, with the marks of its metrics.
function row({ name, isTested, spoken, marks }, plot, isChosen) {
  const click = () => {
    store.choose(CLASSES, [name]);
    store.showControl(CLASSES, { value: [name] });
  };
  return markup`<button type="button" data-pick=${name} aria-label=${spoken} aria-pressed=${String(isChosen)}
    ?disabled=${!isTested} @click=${click}><span class="name">${name}</span>${
    marks.map((several) => strip(several, plot))
  }</button>`;
}

// The values of the class under the pointer or with the focus stand below the plot.
function plotIn(place) {
  const keys = createRoving(() => 1);
  let drawn = null;
  let read = texts.hint;

  function draw(plot, shown) {
    const say = (text) => {
      read = text;
      draw(plot, shown);
    };
    const point = ({ target }) => say(target.closest("button")?.ariaLabel ?? texts.hint);
    const focus = (event) => {
      keys.focus(event);
      point(event);
    };
    const leave = () => say(texts.hint);
    const rows = plot?.rows.map((each) => row(each, plot, shown.includes(each.name)));
    const content = () =>
      markup`${head(plot)}<div class=${plot.models.length > 1 ? "rows two" : "rows"} role="group"
        aria-label=${texts.plot} @pointerover=${point} @focusin=${focus} @pointerleave=${leave} @focusout=${leave}
        @keydown=${keys.press}>${rows}</div>${axis(plot)}<p class="reading">${read}</p>`;
    render(plot ? content() : nothing, place);
  }

  return (plot, chosen) => {
    if (plot !== drawn) read = texts.hint;
    drawn = plot;
    draw(plot, chosen[0] === "" ? [plot?.rows[0]?.name] : chosen); // before a choice, the curves show the worst class
    const buttons = [...place.querySelectorAll("button")];
    setTabStop(buttons, buttons.find((button) => button === document.activeElement) ?? buttons[0]);
  };
}

store.define("class_metrics", {
  skeleton: "rows",
  follows: [CLASSES],
  create(element) {
    render(
      markup`<div class="article"></div><div class="vd-dots"></div><div class="article"></div>`,
      element,
    );
    const [summary, plot, details] = element.children;
    const [drawSummary, drawPlot, drawDetails] = [
      createDocument(summary),
      plotIn(plot),
      createDocument(details),
    ];
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
