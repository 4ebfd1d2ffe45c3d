// The game: the task for the chosen model, the score, the search, and the predictions for the full and the changed image.
import { drawNotice, formatProbability } from "../../components/shared.js";
import { createTaskPanel } from "../../components/task_panel.js";
import { markup, nothing, render as draw } from "../../markup.js";
import * as store from "../../store.js";
import { fillPlural, formatNumber } from "../../texts.js";
import { decode, encode, hasOtherChanges, setRemoved } from "./changes.js";

const MAX_CLASSES = 3; // shown classes, without a new predicted class
const getWatched = () => store.listNeeds(["changed_image"]); // all changes but removed patches
const isFooled = ({ predicted: [before, now] }) => before !== now;

// --- texts ---

function describeTask(name, model) {
  if (!model) return `${name} has no prediction to change. Choose another model.`;
  if (model.class_count === 1) {
    return `${name} has only the class ${
      model.predicted[0]
    }, so its prediction cannot change. Choose another model.`;
  }
  return `Remove patches until ${name} no longer says ${model.predicted[0]}.`;
}

function describeScore(count, all, best) {
  const removed = fillPlural(
    all,
    "{removed} of {count} patch removed.",
    "{removed} of {count} patches removed.",
    {
      removed: formatNumber(count),
    },
  );
  return best ? `${removed} Your best: ${formatNumber(best)}.` : removed;
}

function describeSearch({ run, target, count, patches, passes, is_met: isMet, probability }) {
  const effort = `${formatNumber(passes)} tested images`;
  if (!isMet) {
    return `Not found in ${effort}: without ${count} of ${patches} patches, ${run} still says ${target} (${
      formatProbability(probability)
    }).`;
  }
  if (!count) return `The other changes are enough: ${run} no longer says ${target}.`;
  const enough = fillPlural(
    count,
    "{count} of {patches} patches is enough",
    "{count} of {patches} patches are enough",
    {
      patches,
    },
  );
  return `Found in ${effort}: ${enough}. A smaller set may exist.`;
}

function describeFlip({ run, predicted: [, now], classes, now: shares }) {
  return `Fooled: ${run} now says ${now} (${formatProbability(shares[classes.indexOf(now)])}).`;
}

// --- the predictions ---

function drawPair(name, before, now) {
  const bars = [before, now].map((share, i) =>
    markup`<i class=${i ? "now" : "full"} style="width: ${100 * share}%"></i>`
  );
  return markup`<li><span title=${name}>${name}</span><div>${bars}</div><b>${
    formatProbability(before)
  }</b><b>${formatProbability(now)}</b></li>`;
}

// The probabilities of the chosen model for both images.
function drawPairs(model) {
  const { classes, before, now, predicted } = model;
  const shown = classes.map((_, i) => i).filter((i) => i < MAX_CLASSES || classes[i] === predicted[1]);
  return markup`<div class=${isFooled(model) ? "pairs fooled" : "pairs"}>
    <p><span><i class="full"></i>Full image: <b>${predicted[0]}</b></span>
      <span><i class="now"></i>Changed image: <b>${predicted[1]}</b></span></p>
    <ul>${shown.map((i) => drawPair(classes[i], before[i], now[i]))}</ul>
  </div>`;
}

// The other models in one line.
function drawOthers(models) {
  const drawModel = (model) =>
    isFooled(model)
      ? markup`<li class="fooled">✗ ${model.run}: ${model.predicted[1]}</li>`
      : markup`<li>✓ ${model.run} still says ${model.predicted[1]}</li>`;
  return markup`<ul class="others" aria-label="Other models">${models.map(drawModel)}</ul>`;
}

// --- the view ---

function create(element) {
  const bests = new Map(); // fewest removed patches with which the user has fooled a model, by image, model and grid
  let data = null; // the drawn payload, for the state `dataFor` and its removed patches
  let dataFor = "";
  let found = null; // the result of the last search, for the state of `foundFor`
  let foundFor = "";
  const starts = [{ id: "find-fewest", text: "Find fewest", busy: "Searching …", task: "fewest_patches" }];
  const panel = createTaskPanel({
    starts,
    unit: "tested images",
    cancelId: "cancel-search",
    getWatched,
    drawEnd: takeResult,
  });

  const describeState = () => JSON.stringify(getWatched().map((key) => store.state[key]));

  function takeResult({ data: result, error, cancelled }) {
    if (error || cancelled || !result) return drawNotice(error ?? "The search was cancelled.");
    [found, foundFor] = [result, describeState()];
    if (found.is_met) setRemoved(found.removed);
    drawAll();
    return nothing;
  }

  // Whether the removed patches are the result of the last search, or this search has failed.
  const isSearchShown = () =>
    found && foundFor === describeState() && (!found.is_met || found.removed === store.state.removed);

  function updateBest(model, count) {
    const { image, model: run } = store.state;
    const key = JSON.stringify([image, run, data.grid]);
    if (count && isFooled(model) && !hasOtherChanges() && !isSearchShown()) {
      bests.set(key, Math.min(count, bests.get(key) ?? Infinity));
    }
    return bests.get(key);
  }

  function drawAll() {
    const cells = decode(store.state.removed, data.grid);
    const isCurrent = dataFor === describeState() && encode(cells, data.grid) === data.removed;
    const model = data.models.find(({ run }) => run === store.state.model);
    const best = model && isCurrent ? updateBest(model, cells.length) : undefined;
    const isPlayable = model && model.class_count > 1;
    const isChanged = data.removed || hasOtherChanges();
    const message = [
      ...(isSearchShown() ? [describeSearch(found)] : []),
      ...(isPlayable && isCurrent && isFooled(model) ? [describeFlip(model)] : []),
    ].join(" ");
    draw(
      markup`<h2>${describeTask(store.state.model, model)}</h2>
        <div class="line"><p class="score">${
        describeScore(cells.length, data.grid[0] * data.grid[1], best)
      }</p><span class="grid">Grid: ${
        data.grid.join(" × ")
      } for all models</span><div ?hidden=${!isPlayable}>${panel.buttons}</div></div>
        ${panel.progress}
        <p class="message" role="status">${message}</p>
        ${model ? drawPairs(model) : nothing}
        ${drawOthers(isChanged ? data.models.filter((each) => each !== model) : [])}
        ${data.problems.map(drawNotice)}`,
      element,
    );
  }

  function render(payload) {
    if (payload !== data) dataFor = describeState();
    data = payload;
    drawAll();
  }

  return { render };
}

store.define("changed_predictions", { skeleton: "rows", follows: ["model", "removed"], create });
