// Attribution maps of a class in one row, with their faithfulness scores as bars, and the curves of the test. The view
// has two elements: #why-maps contains the maps and the tasks. #why-meter contains the curves, numbers and
// explanations.
import { createDocument } from "../../components/documents.js";
import { drawMapRow } from "../../components/maps.js";
import { drawNotice } from "../../components/shared.js";
import { createTaskPanel } from "../../components/task_panel.js";
import { markup, nothing, render } from "../../markup.js";
import * as store from "../../store.js";

const VIEW = "class_attribution";
const starts = [
  {
    id: "why-measure",
    text: "Test faithfulness",
    busy: "Testing …",
    task: `${VIEW}.faithfulness`,
  },
  { id: "why-slow", text: "Compute slow maps", busy: "Computing …", task: `${VIEW}.slow` },
];
const getWatched = () => store.listNeeds([VIEW]);
const panel = createTaskPanel({ starts, cancelId: "why-cancel", views: [VIEW], getWatched });

// --- the bars below the maps ---

function drawBar({ low, high, random, baselines }, { points, text, verdict, title, is_better }, { colour, sign }) {
  const computePlace = (value) => (100 * (value - low)) / (high - low || 1);
  const drawPart = (className, from, to, name = nothing) => {
    const [left, right] = [computePlace(Math.min(from, to)), computePlace(Math.max(from, to))];
    return markup`<i class=${className} style="left: ${left}%; width: ${right - left}%" title=${name}></i>`;
  };
  const label = `Faithfulness score, ${text} points: ${title}`;
  return markup`<div class="score" title=${label}>
    <div class="track" role="img" aria-label=${label}>${drawPart("random", ...random)}${
    drawPart(`value${is_better ? " is-better" : ""}`, 0, points)
  }${baselines.map(([name, value]) => drawPart("line", value, value, `${name} ${value.toFixed(1)}`))}</div>
    <p><i class="swatch" style="background: ${colour}"></i>${
    sign ? markup`<b style="color: ${colour}">${sign}</b> ` : nothing
  }<b>${text}</b>${` ${verdict}`}</p>
  </div>`;
}

function drawBarLegend({ low, high, baselines }) {
  const [from, to] = [low, high].map((value) => value.toFixed(0).replace("-", "−"));
  const names = baselines.map(([title]) => title.toLowerCase()).join(", ");
  const words = [
    `Bars: faithfulness score, ${from} to ${to} points.`,
    `Grey: random orders. Lines: ${names}.`,
  ];
  return markup`<span class="bars">${words.join(" ")}</span>`;
}

// --- the map under the pointer, whose curves are highlighted ---

const meters = new Set(); // the elements of the curves
let drawn = null; // the last payload
let pointed = null; // name of the map under the pointer

// Curve i of the figures (see charts.py) belongs to map i of the scores.
function lightCurves() {
  const order = Object.keys(drawn?.scores?.maps ?? {});
  const end = `-truth-${order.indexOf(pointed)}`;
  for (const meter of meters) {
    for (const curve of meter.querySelectorAll("svg [id*=-truth-]")) {
      curve.classList.toggle("is-lit", curve.id.endsWith(end));
    }
    meter.classList.toggle("has-lit", order.includes(pointed));
  }
}

function point(name) {
  pointed = name;
  lightCurves();
}

function makeDecoration(name) {
  const { styles, scores } = drawn;
  const score = scores?.maps[name] ? drawBar(scores, scores.maps[name], styles[name]) : nothing;
  return { name, score, point: (isInside) => point(isInside ? name : null) };
}

function drawMaps(data) {
  drawn = data;
  const { intro: _intro, sentence, ...row } = data.row;
  const legend = data.scores ? drawBarLegend(data.scores) : nothing;
  return [
    sentence ? drawNotice(sentence) : nothing,
    drawMapRow(row, { decorations: data.names.map(makeDecoration), legend }),
  ];
}

// --- the view ---

function createMaps(element) {
  const slow = panel.buttons.querySelector("#why-slow");
  const draw = (intro, content) =>
    render(
      markup`<div class="head"><p class="intro">${intro}</p>${panel.buttons}</div>${panel.progress}<div>${content}</div>`,
      element,
    );
  draw("", nothing);
  return {
    render(data) {
      draw(data.row.intro, drawMaps(data));
      panel.buttons.hidden = false;
      slow.hidden = !data.has_slow && !slow.disabled; // the button shows the state of a running task
    },
    showError(text) {
      draw("", drawNotice(text));
      panel.buttons.hidden = true;
    },
  };
}

function createResults(element) {
  element.classList.add("article");
  meters.add(element);
  const draw = createDocument(element);
  return {
    render({ results }) {
      draw(results);
      lightCurves(); // new curves
    },
    showError: () => draw([]),
  };
}

store.define(VIEW, {
  skeleton: "figures",
  waits: "Computing the attribution maps. The first image takes longest …",
  create: (element) => (element.closest("#why-meter") ? createResults : createMaps)(element),
});
