// Dot plot of precision and recall: a button per class, worst class first. A chosen class shows its curves.
import { createDocument, defineDocument } from "../../components/documents.js";
import { createRoving, setTabStop } from "../../components/shared.js";
import { markup, nothing, render, shapes } from "../../markup.js";
import * as store from "../../store.js";

const HINT_TEXT = "Choose a class to see its curves below. Lines: 95% confidence intervals.";
const CLASSES = "metrics.classes";

defineDocument("calibration", { skeleton: "figures" });
defineDocument("paired_test");
defineDocument("ranking_curves", { skeleton: "figures" });

// Marks of one metric: the chosen model above the compared model, which is hollow.
function drawStrip(marks, { ticks, models }) {
  const computePlace = (value) => `${(100 * (value - ticks[0])) / (1 - ticks[0])}%`;
  const drawLine = (kind, x1, x2, y1, y2) =>
    shapes`<line class=${kind} x1=${x1} x2=${x2} y1=${y1} y2=${y2}></line>`;
  const drawn = marks.map((mark, i) => {
    if (!mark) return nothing;
    const [value, low, high] = mark;
    const y = models.length > 1 ? ["34%", "70%"][i] : "50%";
    return [
      drawLine("whisker", computePlace(low), computePlace(high), y, y),
      shapes`<circle class=${i ? "other" : "chosen"} cx=${computePlace(value)} cy=${y} r="4.5"></circle>`,
    ];
  });
  const grid = ticks.map((tick) => drawLine("grid", computePlace(tick), computePlace(tick), "0", "100%"));
  return markup`<svg aria-hidden="true">${grid}${drawn}</svg>`;
}

const drawTick = (tick, i, ticks) =>
  markup`<span style="left: ${(100 * i) / (ticks.length - 1)}%">${String(tick)}</span>`;

function drawHead({ metrics, models }) {
  const drawDot = (name, i) =>
    markup`<span class="model"><i class=${i ? "other" : "chosen"}></i>${name}</span>`;
  return markup`<div class="head"><span class="models">${
    models.length > 1 ? models.map(drawDot) : nothing
  }</span>${metrics.map((text) => markup`<b>${text}</b>`)}</div>`;
}

function drawAxis({ metrics, ticks }) {
  const drawLabels = () => markup`<span class="ticks">${ticks.map(drawTick)}</span>`;
  return markup`<div class="axis" aria-hidden="true"><span></span>${metrics.map(drawLabels)}</div>`;
}

// The button of a class, with the marks of its metrics.
function drawRow({ name, isTested, spoken, marks }, plot, isChosen) {
  const click = () => {
    store.choose(CLASSES, [name]);
    store.showControl(CLASSES, { value: [name] });
  };
  return markup`<button type="button" data-pick=${name} aria-label=${spoken} aria-pressed=${String(isChosen)}
    ?disabled=${!isTested} @click=${click}><span class="name">${name}</span>${
    marks.map((several) => drawStrip(several, plot))
  }</button>`;
}

// The values of the class under the pointer or with the focus are shown below the plot.
function createPlot(place) {
  const keys = createRoving(() => 1);
  let drawn = null;
  let read = HINT_TEXT;

  function draw(plot, shown) {
    const showText = (text) => {
      read = text;
      draw(plot, shown);
    };
    const point = ({ target }) => showText(target.closest("button")?.ariaLabel ?? HINT_TEXT);
    const focus = (event) => {
      keys.focus(event);
      point(event);
    };
    const leave = () => showText(HINT_TEXT);
    const rows = plot?.rows.map((each) => drawRow(each, plot, shown.includes(each.name)));
    const drawContent = () =>
      markup`${drawHead(plot)}<div class=${plot.models.length > 1 ? "rows two" : "rows"} role="group"
        aria-label="Precision and recall of each class, lowest F1 first" @pointerover=${point} @focusin=${focus} @pointerleave=${leave} @focusout=${leave}
        @keydown=${keys.press}>${rows}</div>${drawAxis(plot)}<p class="reading">${read}</p>`;
    render(plot ? drawContent() : nothing, place);
  }

  return (plot, chosen) => {
    if (plot !== drawn) read = HINT_TEXT;
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
      createPlot(plot),
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
