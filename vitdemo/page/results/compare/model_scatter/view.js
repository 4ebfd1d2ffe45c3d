// Scatter plot of all models. The card of the model at the pointer, or with the focus, shows its values; a click opens it.
import { makeScale } from "../../../components/line_plots.js";
import { addRoving, clamp, drawNotice } from "../../../components/shared.js";
import { makeElement, markup, nothing, render, shapes } from "../../../markup.js";
import * as store from "../../../store.js";
import { fillPlural } from "../../../texts.js";

const AXES = {
  parameters: { name: "Parameters", title: "parameters (million)" },
  macs: { name: "Multiply-adds", title: "multiply-adds per image (million)" },
  minutes: { name: "Training time", title: "training time (minutes)" },
};
const KINDS = { model: "model", results: "only results, without weights", ablation: "ablation run" };
const X = "compare.x";
const [LEFT, RIGHT, TOP, BOTTOM] = [52, 14, 10, 40]; // margins in pixels
const RADIUS = { model: 7, results: 5.5, ablation: 4 };
const ORDER = Object.keys(RADIUS);
const REACH = 24; // maximum pixels from the pointer to the nearest dot
const LETTER = 7; // pixels, width of a letter of a label
const LINE = 14; // pixels, height of a label
const GAP = 8; // pixels between two labels
// The axis of the accuracy is a logit scale, so that weak runs do not compress the differences between good models.
const TICKS = [1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 85, 90, 92, 94, 95, 96, 97, 98, 99, 99.5, 99.9]; // percent
const CLOSEST_TICKS = 22; // pixels
const EDGE = 0.05; // percent, for accuracies of 0% and 100%, whose logits are infinite
const COINCIDENT = 3; // pixels: dots that are closer are moved

function open({ name, kind }) {
  const [key, tab] = kind === "model" ? ["model", "explore"] : ["results.model", "metrics"];
  store.choose(key, name);
  store.showControl(key, { value: name });
  store.openTab(tab);
}

const isOverlapping = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
const makeSquare = ({ x, y, radius }) => ({
  left: x - radius - 2,
  right: x + radius + 2,
  top: y - radius,
  bottom: y + radius,
});

// Move dots at the same place next to each other, so that the pointer reaches each of them.
function separate(dots) {
  dots.forEach((dot, i) => {
    const isCovering = ({ x, y }) => Math.hypot(x - dot.x, y - dot.y) < COINCIDENT;
    while (dots.slice(0, i).some(isCovering)) dot.x += dot.radius;
  });
}

// Labels of models at one of four sides of their dots. A label without a free place is left out.
function placeLabels(dots, width) {
  const taken = dots.map(makeSquare);
  return dots.filter(({ model }) => model.kind === "model" || (model.kind === "results" && width > 600))
    .flatMap(({ model, x, y, radius }) => {
      const long = LETTER * model.name.length;
      const sides = [[x + radius + 4, y - LINE / 2], [x - radius - 4 - long, y - LINE / 2], [
        x - long / 2,
        y - radius - LINE - 2,
      ], [x - long / 2, y + radius + 2]];
      for (const [left, top] of sides) {
        const box = { left, top, right: left + long, bottom: top + LINE };
        if (left < LEFT || box.right > width || taken.some((other) => isOverlapping(box, other))) continue;
        taken.push({ ...box, left: left - GAP, right: box.right + GAP });
        return [shapes`<text class="name ${model.kind}" x=${left} y=${top + 11}>${model.name}</text>`];
      }
      return [];
    });
}

// The logarithm of the ratio of correct to incorrect predictions.
function computeLogit(accuracy) {
  const share = clamp(accuracy, EDGE, 100 - EDGE) / 100;
  return Math.log(share / (1 - share));
}

// The scale of the accuracies, in percent: places and ticks. Of close ticks, the highest is kept.
function makeAccuracyScale(accuracies, ends) {
  const logits = makeScale(accuracies.map(computeLogit), ends);
  const place = (accuracy) => logits.place(computeLogit(accuracy));
  const within = TICKS.filter((tick) => place(tick) <= ends[0] && place(tick) >= ends[1]);
  const ticks = within.reduceRight(
    (kept, tick) => kept.length && place(tick) - place(kept[0]) < CLOSEST_TICKS ? kept : [tick, ...kept],
    [],
  );
  return { place, ticks };
}

function drawAxes(across, up, { height, right, bottom, title }) {
  const drawLine = (x1, x2, y1, y2) => shapes`<line class="grid" x1=${x1} x2=${x2} y1=${y1} y2=${y2}></line>`;
  const drawText = (words, x, y, { anchor = "middle", kind = "" } = {}) =>
    shapes`<text class=${kind} x=${x} y=${y} text-anchor=${anchor}>${words}</text>`;
  const accuracy = drawText("test accuracy (%), logit scale", 0, 0, { kind: "title" });
  return [
    ...up.ticks.flatMap((
      value,
    ) => [
      drawLine(LEFT, right, up.place(value), up.place(value)),
      drawText(String(value), LEFT - 6, up.place(value) + 4, { anchor: "end" }),
    ]),
    ...across.ticks.flatMap((
      value,
    ) => [
      drawLine(across.place(value), across.place(value), TOP, bottom),
      drawText(value.toLocaleString("en"), across.place(value), bottom + 15),
    ]),
    drawText(title, (LEFT + right) / 2, height - 4, { kind: "title" }),
    shapes`<g transform="translate(13 ${(TOP + bottom) / 2}) rotate(-90)">${accuracy}</g>`,
  ];
}

const describeHint = (
  { kind },
) => (kind === "model" ? "Click to open the model in Explore." : "Click to see the results per class.");

const describeModel = (model) =>
  [model.name, ...model.details.map(([label, text]) => `${label}: ${text}`), describeHint(model)].join(". ");

const drawCard = (model) =>
  markup`<strong>${model.name}</strong>
    <dl>${model.details.map(([label, text]) => markup`<dt>${label}</dt><dd>${text}</dd>`)}</dl>
    <small>${describeHint(model)}</small>`;

const drawDot = ({ model, x, y, radius }) =>
  shapes`<circle class="dot ${model.kind}" cx=${x} cy=${y} r=${radius} role="button" tabindex="-1"
    aria-label=${describeModel(model)} data-pick=${model.name}></circle>`;

// The choice of the x axis, and the legend.
function drawBar(axis) {
  const drawChoice = ([key, { name }]) =>
    markup`<button type="button" data-pick=${key} aria-pressed=${String(key === axis)} @click=${() =>
      store.set({ [X]: key })}>${name}</button>`;
  const drawKey = (kind) => markup`<span><i class=${kind}></i>${KINDS[kind]}</span>`;
  return markup`<div class="bar">
    <div class="axes" role="group" aria-label="Horizontal axis">${Object.entries(AXES).map(drawChoice)}</div>
    <div class="keys">${Object.keys(RADIUS).map(drawKey)}</div>
  </div>`;
}

function drawFailedRun(model) {
  const text = `${model.name} ${model.accuracy}%`;
  return markup`<button type="button" class="vd-download" title=${describeModel(model)} @click=${() =>
    open(model)}>${text}</button>`;
}

const drawFailedRuns = (failed) =>
  markup`Failed runs, with an accuracy close to chance: ${failed.map(drawFailedRun)}`;

// Dots { model, x, y, radius } in the order of drawing, so that important dots cover others; and the axes.
function layOut(models, axis, [width, height]) {
  const [right, bottom] = [width - RIGHT, height - BOTTOM];
  const across = makeScale(models.map((model) => model[axis]), [LEFT, right], { log: true });
  const up = makeAccuracyScale(models.map(({ accuracy }) => accuracy), [bottom, TOP]);
  const dots = models.map((model) => {
    const [x, y, radius] = [across.place(model[axis]), up.place(model.accuracy), RADIUS[model.kind]];
    return { model, x, y, radius };
  }).sort((a, b) => ORDER.indexOf(b.model.kind) - ORDER.indexOf(a.model.kind) || a.x - b.x);
  separate(dots);
  return { dots, axes: drawAxes(across, up, { height, right, bottom, title: AXES[axis].title }) };
}

function drawPlot({ dots, axes }, [width, height]) {
  const byImportance = dots.toSorted((a, b) =>
    ORDER.indexOf(a.model.kind) - ORDER.indexOf(b.model.kind) || b.model.accuracy - a.model.accuracy
  );
  return markup`<svg viewBox="0 0 ${width} ${height}" role="group" aria-label="Test accuracy of all models">
      ${axes}${dots.map(drawDot)}${placeLabels(byImportance, width - RIGHT)}
    </svg>`;
}

// Move the card next to its dot.
function placeCard(card, { x, y }, { clientWidth, clientHeight }) {
  const isRight = x > clientWidth / 2;
  card.style.left = isRight ? "" : `${x + 14}px`;
  card.style.right = isRight ? `${clientWidth - x + 14}px` : "";
  card.style.top = `${Math.max(0, Math.min(y - 30, clientHeight - card.offsetHeight))}px`;
}

// The number of runs that the chart leaves out.
function describeMissing(count) {
  const texts = [
    "{count} run without this value is not shown.",
    "{count} runs without this value are not shown.",
  ];
  return count ? fillPlural(count, ...texts) : "";
}

function create(element) {
  const shown = makeElement(markup`<div class="shown" aria-hidden="true" hidden></div>`);
  const plot = makeElement(markup`<figure class="plot" aria-label="Plot of all models"></figure>`);
  let [models, axis, dots, marked, setTabStop] = [[], store.keys[X].start, [], null, null];

  function mark(dot) {
    marked = dot;
    for (const each of dots) each.mark.classList.toggle("marked", each === dot);
    shown.hidden = !dot;
    if (!dot) return;
    render(drawCard(dot.model), shown);
    placeCard(shown, dot, plot);
  }

  function findNearest({ clientX, clientY }) {
    const box = plot.getBoundingClientRect();
    const computeDistance = ({ x, y }) => Math.hypot(x - clientX + box.left, y - clientY + box.top);
    return dots.filter((dot) => computeDistance(dot) <= REACH).sort((a, b) =>
      computeDistance(a) - computeDistance(b)
    )[0];
  }

  const findDot = ({ target }) => dots.find((dot) => dot.mark === target);

  plot.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "touch") mark(findNearest(event));
  });
  plot.addEventListener("pointerleave", () => mark(null));
  plot.addEventListener("focusin", (event) => mark(findDot(event)));
  plot.addEventListener("focusout", () => mark(null));
  // The first tap shows the card, and the second tap opens the model.
  plot.addEventListener("click", (event) => {
    const [before, dot] = [marked, findNearest(event)];
    if (dot && (event.pointerType !== "touch" || dot === before)) open(dot.model);
    else mark(dot);
  });
  plot.addEventListener("keydown", (event) => {
    const dot = findDot(event);
    if (!dot || (event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    open(dot.model);
  });

  function draw() {
    if (!plot.clientWidth) return;
    const size = [plot.clientWidth, plot.clientWidth < 600 ? 340 : 430];
    const layout = layOut(models, axis, size);
    dots = layout.dots;
    render(markup`${drawPlot(layout, size)}${shown}`, plot);
    plot.querySelectorAll(".dot").forEach((each, i) => (dots[i].mark = each));
    mark(null);
    setTabStop ??= addRoving(
      plot,
      () => dots.toSorted((a, b) => a.x - b.x || b.y - a.y).map((dot) => dot.mark),
      () => dots.length,
    );
    if (dots.length) setTabStop(dots.at(-1).mark);
  }

  new ResizeObserver(draw).observe(plot);
  return {
    render(data, state) {
      axis = state[X];
      models = data.models.filter((model) => model[axis] > 0);
      const count = data.models.length - models.length;
      const drawChart = () => markup`${drawBar(axis)}${plot}<p class="missing">${describeMissing(count)}</p>`;
      const problems = data.problems.map(drawNotice);
      render(
        markup`${problems}${data.empty ? drawNotice(data.empty) : nothing}${
          data.models.length ? drawChart() : nothing
        }
          <p class="failed">${data.failed.length ? drawFailedRuns(data.failed) : ""}</p>`,
        element,
      );
      draw();
    },
  };
}

store.define("model_scatter", { skeleton: "figures", follows: [X], create });
