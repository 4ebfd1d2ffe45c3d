// Attribution maps of a class in one row, with their faithfulness scores as bars, and the curves of the test. The view
// has two elements: #why-maps has the maps and the tasks, #why-meter the curves, numbers and explanations.
import { documentIn } from "../../components/documents.js";
import { mapRow } from "../../components/maps.js";
import { make, notice, redraw } from "../../components/shared.js";
import { taskPanel } from "../../components/task_panel.js";
import * as store from "../../store.js";
import { fill, TEXTS } from "../../texts.js";

const texts = TEXTS.class_attribution;
const VIEW = "class_attribution";
const NEEDS = ["image", "model", "why", "not", "fill"];
const starts = [
  {
    id: "why-measure",
    text: texts.test_faithfulness,
    busy: texts.testing_faithfulness,
    task: `${VIEW}.faithfulness`,
  },
  { id: "why-slow", text: texts.compute_slow_maps, busy: texts.computing_slow_maps, task: `${VIEW}.slow` },
];
const panel = taskPanel({ starts, cancelId: "why-cancel", views: [VIEW], needs: NEEDS });

// --- the bars below the maps ---

function bar({ low, high, random, baselines }, { points, text, verdict, title, is_better }) {
  const at = (value) => (100 * (value - low)) / (high - low || 1);
  const part = (className, from, to) =>
    make("i", {
      className,
      style: `left: ${at(Math.min(from, to))}%; width: ${at(Math.max(from, to)) - at(Math.min(from, to))}%`,
    });
  const label = fill(texts.score, { points: text, verdict: title });
  return make(
    "div",
    { className: "score", title: label },
    make(
      "div",
      { className: "track", role: "img", "aria-label": label },
      part("random", ...random),
      part(`value${is_better ? " is-better" : ""}`, 0, points),
      ...baselines.map(([name, value]) =>
        Object.assign(part("line", value, value), { title: `${name} ${value.toFixed(1)}` })
      ),
    ),
    make("p", {}, make("b", { text }), ` ${verdict}`),
  );
}

function barWords({ low, high, baselines }) {
  const [from, to] = [low, high].map((value) => value.toFixed(0).replace("-", "−"));
  const names = baselines.map(([title]) => title.toLowerCase()).join(", ");
  return make("span", {
    className: "bars",
    text: `${fill(texts.bars, { low: from, high: to })} ${fill(texts.bars_baselines, { baselines: names })}`,
  });
}

// --- the map under the pointer, whose curves are highlighted ---

const meters = new Set(); // the elements of the curves
let drawn = null; // the last payload

// Curve i of the figures (see charts.py) belongs to map i of the scores. `name` is null for no map.
function light(name) {
  const order = Object.keys(drawn.scores?.maps ?? {});
  for (const meter of meters) {
    for (const curve of meter.querySelectorAll("svg [id*=-truth-]")) {
      curve.classList.toggle("is-lit", name !== null && curve.id.endsWith(`-truth-${order.indexOf(name)}`));
    }
    meter.classList.toggle("has-lit", order.includes(name));
  }
}

function decorate(figure, name) {
  const { colours, scores } = drawn;
  const caption = figure.querySelector("figcaption");
  if (scores?.maps[name]) {
    const score = bar(scores, scores.maps[name]);
    score.lastElementChild.prepend(make("i", { className: "swatch", style: `background: ${colours[name]}` }));
    caption.querySelector(".tools").before(score);
  }
  figure.dataset.map = name;
  for (const type of ["pointerenter", "focusin"]) figure.addEventListener(type, () => light(name));
  for (const type of ["pointerleave", "focusout"]) figure.addEventListener(type, () => light(null));
}

function drawMaps(place, data) {
  drawn = data;
  const { intro, sentence, ...row } = data.row;
  const maps = mapRow(row);
  maps.style.setProperty("--count", data.names.length);
  maps.querySelectorAll("figure").forEach((figure, i) => decorate(figure, data.names[i]));
  if (data.scores) maps.querySelector(".legends").append(barWords(data.scores));
  redraw(place, ...(sentence ? [notice(sentence)] : []), maps);
  return intro;
}

// --- the view ---

function createMaps(element) {
  const [intro, place] = [make("p", { className: "intro" }), make("div")];
  element.replaceChildren(make("div", { className: "head" }, intro, panel.buttons), panel.progress, place);
  const slow = panel.buttons.querySelector("#why-slow");
  return {
    render(data) {
      intro.textContent = drawMaps(place, data);
      panel.buttons.hidden = false;
      slow.hidden = !data.has_slow && !slow.disabled; // it shows the state of a running task
    },
    showError(text) {
      intro.textContent = "";
      panel.buttons.hidden = true;
      place.replaceChildren(notice(text));
    },
  };
}

function createResults(element) {
  element.classList.add("article");
  meters.add(element);
  const draw = documentIn(element);
  return { render: ({ results }) => draw(results), showError: () => draw([]) };
}

store.define(VIEW, {
  skeleton: "figures",
  needs: NEEDS,
  create: (element) => (element.closest("#why-meter") ? createResults : createMaps)(element),
});
