// The image without the patches that a map ranks highest, and the probability of the class without these patches. A
// slider chooses the number of patches.
import { drawActionButton, formatProbability, makeCanvas } from "../../components/shared.js";
import { makeElement, markup, nothing, render } from "../../markup.js";
import * as store from "../../store.js";
import { startRanking } from "./ranking.js";

const SHARE = "attribution.removed"; // state key: percentage of removed patches
const HOLE = [128, 128, 128, 255];

// Cover the `count` patches with the lowest ranks.
function drawHoles(canvas, ranks, count) {
  const [rows, columns] = [ranks.length, ranks[0].length];
  const context = Object.assign(canvas, { width: columns, height: rows }).getContext("2d");
  const image = context.createImageData(columns, rows);
  ranks.flat().forEach((rank, i) => rank < count && image.data.set(HOLE, 4 * i));
  context.putImageData(image, 0, 0);
}

const describeClass = ({ target, against }) => (against ? `${target} rather than ${against}` : target);

// The probabilities at the step of the chosen `share`. Without a test of the map, no patch is removed.
function readStep({ probabilities, against, scores }, { name, values }, share) {
  const own = scores?.maps[name];
  const total = values.flat().length;
  if (!own) return { at: 0, steps: 1, count: 0, total, probability: probabilities[0], isTested: false };
  const steps = scores.fractions.length - 1;
  const at = Math.round((share * steps) / 100);
  return {
    at,
    steps,
    count: Math.round(scores.fractions[at] * own.ranks.flat().length),
    total: own.ranks.flat().length,
    ranks: own.ranks,
    // The curve begins with a pass of lower precision.
    probability: at || against ? own.curve[at] : probabilities[0],
    random: scores.random[at],
    isTested: true,
  };
}

function drawBar({ probability, random, isTested }) {
  const line = isTested ? markup`<i class="line" style="left: ${100 * random}%"></i>` : nothing;
  return markup`<div class="track" aria-hidden="true"><i class="value" style="width: ${
    100 * probability
  }%"></i>${line}</div>`;
}

function drawRemoval(data, large, step, canvas) {
  const { at, count, isTested, probability, random, steps, total } = step;
  const text = `${describeClass(data)} ${formatProbability(probability)}`;
  const amount = `${count} of ${total}`;
  return markup`<div class="vd-overlay"><img src=${data.seen.url}
      alt="Model input without ${amount} patches, in the order of ${large.title}">${
    isTested ? canvas : nothing
  }</div>
    <div class="caption">
      <p class="left"><strong>${text}</strong> ${
    isTested && count
      ? markup`<span class="quiet">in random order ${formatProbability(random)}</span>`
      : nothing
  }</p>
      ${drawBar(step)}
      <label>Removed patches <span class="amount">${amount}</span> <input type="range" id="attribution-removed" min="0" max=${steps} .value=${at}
        ?disabled=${!isTested} aria-valuetext="${amount}: ${text}"
        @input=${({ target }) =>
    store.set({ [SHARE]: Math.round((100 * target.valueAsNumber) / steps) })}></label>
      <p class="grid">${data.run} has ${large.values.length} × ${large.values[0].length} patches.</p>
      ${drawActionButton("Beat the map", () => startRanking(data), "beat-the-map")}
    </div>`;
}

export function createRemoval() {
  const canvas = makeCanvas(1, 1);
  const element = makeElement(
    markup`<div class="removal" role="group" aria-label="Removal of patches"></div>`,
  );
  let drawn = ""; // ranks and number of removed patches on the canvas
  function show(data, large, state) {
    const step = readStep(data, large, state[SHARE]);
    const wanted = JSON.stringify([step.ranks, step.count]);
    if (step.isTested && drawn !== wanted) drawHoles(canvas, step.ranks, step.count);
    drawn = wanted;
    render(drawRemoval(data, large, step, canvas), element);
  }
  return { element, show };
}
