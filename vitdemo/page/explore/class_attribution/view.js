// Attribution maps of a class: a verdict, the large map, the image without the top patches of this map, and small maps.
// The maps appear first; the scores follow when the faithfulness test ends. If the test takes only seconds and the page has
// only one user, the browser starts the test.
import { createDocument, defineDocument } from "../../components/documents.js";
import { formatSigned } from "../../components/grid.js";
import { drawMapFigure, drawScales } from "../../components/maps.js";
import {
  drawNotice,
  drawValues,
  findLargest,
  formatProbability,
  makeCanvas,
} from "../../components/shared.js";
import { createQuickStart, createTaskPanel } from "../../components/task_panel.js";
import { makeElement, markup, nothing, render } from "../../markup.js";
import * as store from "../../store.js";
import { createRanking, isRanking } from "./ranking.js";
import { createRemoval } from "./removal.js";

const [VIEW, DETAILS, RANKING] = ["class_attribution", "class_attribution_details", "attribution_ranking"];
const ORDER_TASK = `${VIEW}.order`;
const NEEDS_FULL_VERSION = "The full version of vitdemo also searches for the best order of patches.";
const LARGE = "attribution.map"; // state key: name of the large map
const starts = [
  {
    id: "test-faithfulness",
    text: "Test faithfulness",
    busy: "Testing …",
    task: `${VIEW}.faithfulness`,
  },
  { id: "compute-slow-maps", text: "Compute slow maps", busy: "Computing …", task: `${VIEW}.slow` },
  { id: "find-best-order", text: "Find best order", busy: "Searching …", task: ORDER_TASK },
];
const getWatched = () => store.listNeeds([VIEW]);
const panel = createTaskPanel({
  starts,
  cancelId: "cancel-attribution",
  views: [VIEW, DETAILS, RANKING],
  getWatched,
});
const [testButton, slowButton, orderButton] = starts.map(({ id }) => panel.buttons.querySelector(`#${id}`));

// --- texts ---

const describeClasses = ({ target, against }) => (against ? `${target} and not ${against}` : target);

function describeQuestion(data) {
  const { run, target, against, probabilities } = data;
  const predicted = [target, against].filter(Boolean).map((name, i) =>
    `${name} ${formatProbability(probabilities[i])}`
  );
  return `Why ${describeClasses(data)}? ${run} predicts ${predicted.join(" and ")}.`;
}

const formatShare = ({ share }) => `${String(share).replace("-", "−")}%`;

function describeAnswer({ p, beats_random: isBetter, beats_all: isBest, is_worse: isWorse, title }) {
  if (isWorse) return "no, significantly worse";
  const value = `p = ${p.toFixed(2)}`;
  if (!isBetter) return `no (${value})`;
  return isBest ? `yes (${value}), and better than all other baselines` : `yes (${value}), but ${title}`;
}

function describeVerdict({ first, is_untested: isUntested, maps, measured, scores }, { name, title }) {
  const score = scores?.maps[name];
  const isFirst = name === first && maps.length > 1;
  if (!score) {
    return isFirst && measured
      ? `${title} has this model's highest mean score, measured on ${measured.count} ${measured.part} images. On this image, the map is not tested yet.`
      : `${title} is not tested on this image yet.`;
  }
  const share = score.share === null ? "" : ` (${formatShare(score)} of the best order found)`;
  const points = `${formatSigned(score.points, 1)} points${share}`;
  const start = isFirst && !isUntested
    ? `${title} has the highest faithfulness score on this image, ${points}.`
    : `${title} has a faithfulness score of ${points} on this image.`;
  return `${start} Better than random orders: ${describeAnswer(score)}.`;
}

const describeBest = ({ count, part, fill, steps }) =>
  `On ${count} ${part} images, no other map of this model scored significantly higher. This map scored significantly higher than the centre-first baseline and the edge map (paired t-tests with Holm's correction, p < 0.05; replacement: ${fill}; ${steps} steps)`;

function describeStrongest({ values, signed }) {
  const all = values.flat();
  if (all.every((value) => value === all[0])) return "uniform";
  const limit = findLargest(all);
  const best = all.findIndex((value) => Math.abs(value) === limit);
  const [rows, columns] = [values.length, values[0].length];
  const place = `row ${Math.floor(best / columns) + 1} of ${rows}, column ${
    best % columns + 1
  } of ${columns}`;
  const effect = signed ? ` (${all[best] < 0 ? "opposes" : "supports"} the class)` : "";
  return `strongest patch in ${place}${effect}`;
}

// --- the maps ---

function makePanel(map, data) {
  const { title, values, signed, is_best: isBest, is_class_specific: isSpecific } = map;
  const classes = isSpecific ? describeClasses(data) : "every class (the map is the same)";
  return {
    title,
    values,
    signed,
    seen: data.seen,
    alt: `${title} of ${data.run} for ${classes}: ${describeStrongest(map)}`,
    fraction: !isSpecific,
    ...(isBest ? { badge: "among the best on average", badge_title: describeBest(data.measured) } : {}),
  };
}

// The correct map of a ground truth image.
function drawTruth({ patches }, seen) {
  const canvas = makeCanvas(1, 1);
  drawValues(canvas, patches.flat().map(Number), [patches.length, patches[0].length], {});
  return markup`<div class="truth"><span class="vd-overlay"><img src=${seen.url} alt="">${canvas}</span>
    <b>Correct map</b><span class="score">the patches of the marks</span></div>`;
}

const drawScore = (score) =>
  markup`<b>${formatSigned(score.points, 1)}</b> ${
    score.share === null
      ? nothing
      : markup`<span title="Percentage of the best order found">(${formatShare(score)})</span>`
  } ${score.verdict}`;

// A button with a small map, its score and its verdict, which makes the map large.
function drawSmallMap({ name, title, values, signed }, { scores, seen, truth }, isLarge) {
  const canvas = makeCanvas(1, 1);
  drawValues(canvas, values.flat(), [values.length, values[0].length], { signed });
  const score = scores?.maps[name];
  return markup`<button type="button" data-pick=${name} aria-pressed=${String(isLarge)} title=${
    score?.title ?? nothing
  }
    @click=${() => store.set({ [LARGE]: name })}>
    <span class="vd-overlay"><img src=${seen.url} alt="">${canvas}</span>
    <b>${title}</b>
    ${truth ? markup`<span class="share">${Math.round(truth.shares[name])}% on the marks</span>` : nothing}
    <span class="score">${score ? drawScore(score) : "not tested yet"}</span>
  </button>`;
}

function drawExplanations({ scores }) {
  if (!scores) return nothing;
  const explanations = scores.explanations.map(([verdict, text]) =>
    markup`<b>${verdict[0].toUpperCase() + verdict.slice(1)}</b>: ${text}. `
  );
  return markup`<p class="verdicts">${explanations}${
    scores.has_best || store.isTaskKnown(ORDER_TASK) ? "" : NEEDS_FULL_VERSION
  }</p>`;
}

// `drawn` are the previous maps. The figure of an equal map is kept, with its open folds.
function drawMaps(data, large, drawn) {
  const ends = [
    data.against ? `supports ${data.against}` : `opposes ${data.target}`,
    `supports ${data.target}`,
  ];
  const others = data.maps.length > 1
    ? markup`<div class="small" role="group" aria-label="All maps: choose a map to enlarge it">${
      data.truth ? drawTruth(data.truth, data.seen) : nothing
    }${data.maps.map((map) => drawSmallMap(map, data, map === large))}${drawExplanations(data)}</div>`
    : nothing;
  const panel = makePanel(large, data);
  const key = JSON.stringify([panel, ends]);
  const figure = key === drawn.key ? drawn.figure : drawMapFigure(panel, ends);
  return { data, large, key, figure, others, scales: drawScales(data.maps, ends) };
}

// --- the view ---

function createMaps(element) {
  const [removal, ranking] = [createRemoval(), createRanking(RANKING)];
  const comparison = makeElement(markup`<div class="comparison article"></div>`);
  const drawComparison = createDocument(comparison);
  const startTestSoon = createQuickStart(testButton);
  let drawn = {}; // data, the large map, and their templates
  const draw = (question, verdict, content) =>
    render(
      markup`<div class="head"><div><p class="intro">${question}</p><p class="verdict" role="status">${verdict}</p></div>
        <div class="run">${panel.buttons}${panel.progress}</div></div>${content}`,
      element,
    );
  draw("", "", nothing);
  return {
    render(data, state) {
      const find = (name) => data.maps.find((map) => map.name === name);
      const large = find(state[LARGE]) ?? find(data.first);
      // Elements of maps are drawn again only for other data or another large map.
      if (drawn.data !== data || drawn.large !== large) drawn = drawMaps(data, large, drawn);
      const [side, other] = isRanking(state) ? [ranking, removal] : [removal, ranking];
      const hasFocus = other.element.contains(document.activeElement);
      side.show(data, large, state);
      drawComparison(data.truth?.blocks ?? []);
      draw(
        describeQuestion(data),
        describeVerdict(data, large),
        markup`${data.problem ? drawNotice(data.problem) : nothing}<div class="vd-maps"><div class="stage">
          ${drawn.figure}${side.element}${drawn.others}</div>${drawn.scales}</div>${comparison}`,
      );
      if (hasFocus) side.element.querySelector(".board, #beat-the-map").focus({ preventScroll: true });
      panel.buttons.hidden = false;
      const [canTest, canCompute, canSearch] = starts.map(({ task }) => store.isTaskKnown(task));
      testButton.hidden = !canTest || (!data.is_untested && !testButton.disabled); // a disabled button shows a running task
      slowButton.hidden = !canCompute || (!data.has_slow && !slowButton.disabled);
      const isFound = !data.scores || data.scores.has_best; // or the scores of maps are not known yet
      orderButton.hidden = !canSearch || (isFound && !orderButton.disabled);
      const chosen = getWatched().map((name) => state[name]);
      startTestSoon(JSON.stringify([data.maps.length, ...chosen]), data.is_quick && data.is_untested);
    },
    showError(text) {
      draw("", "", drawNotice(text));
      panel.buttons.hidden = true;
    },
  };
}

store.define(VIEW, {
  follows: [LARGE, "attribution.removed", "attribution.ranking"],
  skeleton: "figures",
  waits: "Computing the attribution maps. The first image takes longest …",
  create: createMaps,
});
defineDocument(DETAILS, { skeleton: "figures" });
defineDocument(RANKING);
