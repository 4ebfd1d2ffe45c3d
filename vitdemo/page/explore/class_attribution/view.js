// Attribution maps of a class in one row, with their faithfulness scores as bars, and the curves of the test. The view
// has two elements: #attribution-maps contains the maps and the tasks. #faithfulness-results contains the curves, numbers and
// explanations.
import { createDocument } from "../../components/documents.js";
import { describePeak, drawMapRow } from "../../components/maps.js";
import { drawNotice, formatProbability } from "../../components/shared.js";
import { createTaskPanel } from "../../components/task_panel.js";
import { markup, nothing, render } from "../../markup.js";
import * as store from "../../store.js";
import { drawBar, drawBarLegend } from "./score_bars.js";

const VIEW = "class_attribution";
const POINTED = "vitdemo:pointed"; // event: the map under the pointer, whose curves are highlighted
const starts = [
  {
    id: "test-faithfulness",
    text: "Test faithfulness",
    busy: "Testing …",
    task: `${VIEW}.faithfulness`,
  },
  { id: "compute-slow-maps", text: "Compute slow maps", busy: "Computing …", task: `${VIEW}.slow` },
];
const getWatched = () => store.listNeeds([VIEW]);
const panel = createTaskPanel({ starts, cancelId: "cancel-attribution", views: [VIEW], getWatched });

// --- texts ---

const describeClasses = ({ target, against }) => (against ? `${target} and not ${against}` : target);

function describeQuestion(data) {
  const { run, target, against, probabilities } = data;
  const predicted = [target, against].filter(Boolean).map((name, i) =>
    `${name} ${formatProbability(probabilities[i])}`
  );
  return `Why ${describeClasses(data)}? ${run} predicts ${predicted.join(" and ")}.`;
}

function describeStrongest({ values, signed }) {
  const flat = values.flat();
  if (flat.every((value) => value === flat[0])) return "uniform";
  const strongest = `strongest patch in ${describePeak(values)}`;
  if (!signed) return strongest;
  const largest = flat.reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a));
  return `${strongest} (${largest < 0 ? "opposes" : "supports"} the class)`;
}

const describeBest = ({ count, part, fill, steps }) =>
  `On ${count} ${part} images, no other map of this model scored significantly higher. This map scored significantly higher than the centre-first baseline and the edge map (paired t-tests with Holm's correction, p < 0.05; replacement: ${fill}; ${steps} steps)`;

// --- the maps ---

function makePanel(map, data) {
  const { title, values, signed, best, is_class_specific: isSpecific } = map;
  const classes = isSpecific ? describeClasses(data) : "every class (the map is the same)";
  return {
    title,
    values,
    signed,
    seen: data.seen,
    alt: `${title} of ${data.run} for ${classes}: ${describeStrongest(map)}`,
    fraction: !isSpecific,
    ...(best ? { badge: "among the best on average", badge_title: describeBest(best) } : {}),
  };
}

function drawMaps(data) {
  const { maps, problem, scores, target, against } = data;
  const point = (name) => document.dispatchEvent(new CustomEvent(POINTED, { detail: name }));
  const decorations = maps.map(({ name, colour, sign }) => ({
    name,
    score: scores?.maps[name] ? drawBar(scores, scores.maps[name], { colour, sign }) : nothing,
    point: (isInside) => point(isInside ? name : null),
  }));
  const row = {
    panels: maps.map((map) => makePanel(map, data)),
    colour_labels: [against ? `supports ${against}` : `opposes ${target}`, `supports ${target}`],
  };
  const legend = scores ? drawBarLegend(scores) : nothing;
  return [problem ? drawNotice(problem) : nothing, drawMapRow(row, { decorations, legend })];
}

function createMaps(element) {
  const slow = panel.buttons.querySelector("#compute-slow-maps");
  const draw = (intro, content) =>
    render(
      markup`<div class="head"><p class="intro">${intro}</p>${panel.buttons}</div>${panel.progress}<div>${content}</div>`,
      element,
    );
  draw("", nothing);
  return {
    render(data) {
      draw(describeQuestion(data), drawMaps(data));
      panel.buttons.hidden = false;
      slow.hidden = !data.has_slow && !slow.disabled; // the button shows the state of a running task
    },
    showError(text) {
      draw("", drawNotice(text));
      panel.buttons.hidden = true;
    },
  };
}

// --- the curves, numbers and explanations ---

// Curve i of the figures (see charts.py) belongs to map i of the scores.
function lightCurves(element, order, pointed) {
  const end = `-truth-${order.indexOf(pointed)}`;
  for (const curve of element.querySelectorAll("svg [id*=-truth-]")) {
    curve.classList.toggle("is-lit", curve.id.endsWith(end));
  }
  element.classList.toggle("has-lit", order.includes(pointed));
}

function createResults(element) {
  element.classList.add("article");
  const draw = createDocument(element);
  let order = []; // the maps with curves
  let pointed = null; // name of the map under the pointer
  document.addEventListener(POINTED, ({ detail }) => {
    pointed = detail;
    lightCurves(element, order, pointed);
  });
  return {
    render({ results, scores }) {
      order = Object.keys(scores?.maps ?? {});
      draw(results);
      lightCurves(element, order, pointed);
    },
    showError: () => draw([]),
  };
}

store.define(VIEW, {
  skeleton: "figures",
  waits: "Computing the attribution maps. The first image takes longest …",
  create: (element) => (element.closest("#faithfulness-results") ? createResults : createMaps)(element),
});
