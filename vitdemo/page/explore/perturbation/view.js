// The section "Change the image": the changed image, from which the user removes patches, the attention to the image,
// attention knock-out, and the folds of both kinds of sliders.
import "./predictions.js";
import "./presets.js";
import { drawMapRow } from "../../components/maps.js";
import { createRoving, drawActionButton, drawNotice, makeCanvas, saveAs } from "../../components/shared.js";
import { markup, nothing, render } from "../../markup.js";
import * as store from "../../store.js";
import { fill } from "../../texts.js";
import * as imageChanges from "./changes.js";

const { decode, encode, setRemoved } = imageChanges;

// --- the changed image ---

let place = null; // the element of the view
let shown = null; // the drawn payload
let problem = nothing; // why no patches were removed

const getRemovedCells = () => decode(store.state.removed, shown.grid);

function toggle(cell) {
  const removed = getRemovedCells();
  setRemoved(
    encode(removed.includes(cell) ? removed.filter((each) => each !== cell) : [...removed, cell], shown.grid),
  );
}

// A button with data-pick is printed, unlike other buttons.
function drawPatch(cell, columns, isRemoved) {
  const label = `Remove row ${Math.floor(cell / columns) + 1}, column ${(cell % columns) + 1}`;
  return markup`<button type="button" aria-label=${label} data-pick=${cell} tabindex=${cell ? -1 : 0}
    aria-pressed=${String(isRemoved)} @click=${() => toggle(cell)}></button>`;
}

const formatColour = ([red, green, blue]) => `rgb(${red} ${green} ${blue})`;

function drawPatches() {
  if (!shown) return;
  const [rows, columns] = shown.grid;
  const [removed, total] = [getRemovedCells(), rows * columns];
  const count = removed.length ? `${removed.length} of ${total} patches removed` : "";
  const changes = [shown.changes, count].filter(Boolean).join(", ");
  const cells = Array.from({ length: total }, (_, cell) => drawPatch(cell, columns, removed.includes(cell)));
  const style = `grid-template: repeat(${rows}, 1fr) / repeat(${columns}, 1fr); --removed: ${
    formatColour(shown.removed_colour)
  }`;
  const keys = createRoving(() => shown.grid[1]);
  render(
    markup`<div class="changed">
      <div class="patches">
        <img src=${shown.image.url} alt="The image that all models receive. Changes: ${changes || "none"}">
        <div class="cells" role="group" aria-label="Patches: press one to remove or restore it" style=${style} @focusin=${keys.focus}
          @keydown=${keys.press}>${cells}</div>
      </div>
      <p class="words">${
      changes ? `Current changes: ${changes}.` : "Click a patch to remove it, and again to restore it."
    }</p>
      <div class="actions">
        ${drawActionButton("Remove most-attended patches", removeMostAttended, "hands-most")}
        ${drawActionButton("Remove random patches", removeRandom, "hands-random")}
        ${drawActionButton("Download PNG", save)}
      </div>
      <div>${problem}</div>
    </div>`,
    place,
  );
}

function drawImage(element, payload) {
  const before = shown?.grid;
  [place, shown] = [element, payload];
  if (before && String(before) !== String(payload.grid)) {
    render(nothing, place); // Tab reaches the first patch of another grid
    if (decode(store.state.removed, before).length) setRemoved(""); // another grid restores all patches
  }
  drawPatches();
}

// Save the image with its removed patches, as the models receive it.
async function save() {
  const image = place.querySelector("img");
  await image.decode();
  const { naturalWidth: side } = image;
  const canvas = makeCanvas(side, side);
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  context.fillStyle = formatColour(shown.removed_colour);
  const [rows, columns] = shown.grid;
  const [top, left] = [rows, columns].map((count) => (i) => Math.ceil((i * side) / count)); // first pixel of a patch
  for (const cell of getRemovedCells()) {
    const [i, j] = [Math.floor(cell / columns), cell % columns];
    context.fillRect(left(j), top(i), left(j + 1) - left(j), top(i + 1) - top(i));
  }
  saveAs(canvas.toDataURL("image/png"), "changed.png");
}

store.define("changed_image", {
  skeleton: "figures",
  follows: ["removed"],
  render: drawImage,
});

// --- attention maps and knock-out of the changed image ---

store.defineDocument("knockout");

const TITLES = {
  mean: () => "Mean of the heads, layer {layer}",
  rollout: (layer) => (layer > 1 ? "Rollout, layers 1 to {layer}" : "Rollout, layer {layer}"),
};

function describePeak(values) {
  const [flat, columns] = [values.flat(), values[0].length];
  const at = flat.indexOf(Math.max(...flat));
  return `strongest patch in row ${Math.floor(at / columns) + 1} of ${values.length}, column ${
    (at % columns) + 1
  } of ${columns}`;
}

function makePanel({ maps, seen, which }, ranking, run, layer) {
  const [title, values] = [fill(TITLES[ranking](layer), { layer }) + which, maps[ranking][layer - 1]];
  return { title, values, seen, alt: `${run}: ${title}`, lines: [describePeak(values)], fraction: true };
}

let attention = null; // the last answer: { data or error, key }
const getKey = () => JSON.stringify(store.listNeeds(["changed_attention"]).map((name) => store.state[name]));
const getChosenLayer = ({ order }) => Math.min(store.state.layer ?? Infinity, order.mean.length);

function drawMaps(element, data) {
  const { images, reader, run } = data;
  const layer = getChosenLayer(data);
  const intro =
    `Attention of ${run} to the current image. Bright patches receive the most attention from ${reader}.`;
  const panels = Object.keys(TITLES).flatMap((ranking) =>
    images.map((each) => makePanel(each, ranking, run, layer))
  );
  render(drawMapRow({ intro, panels }), element);
  if (attention?.data !== data) receive({ data, key: getKey() });
}

store.define("changed_attention", {
  follows: ["layer"],
  render: drawMaps,
  showError(element, error) {
    render(drawNotice(error), element);
    receive({ error, key: getKey() });
  },
});

// --- buttons ---

let waiting = null; // clicks on "Remove most-attended patches" without a ranking: { key of the state, clicks }

function showMessage(message) {
  problem = message;
  drawPatches();
}

function receive(answer) {
  attention = answer;
  showMessage(nothing);
  if (waiting?.key === answer.key) queueMicrotask(removeRanked); // after all views have received their data
  else waiting = null; // the user has changed the image in the meantime
}

const countToRemove = () => Math.max(Math.round(store.state.patches_per_click ?? 1), 1);

function removeMostAttended() {
  waiting = { key: getKey(), clicks: waiting?.key === getKey() ? waiting.clicks + 1 : 1 };
  removeRanked();
}

// Remove patches for one of the waiting clicks. The next click needs the ranking of the image without these patches.
function removeRanked() {
  if (waiting?.key !== getKey() || attention?.key !== getKey()) return;
  const { clicks } = waiting;
  waiting = null;
  if (attention.error) return showMessage(drawNotice(attention.error));
  const { grid, order } = attention.data;
  const removed = decode(store.state.removed, grid);
  const remaining = order[store.state.ranking][getChosenLayer(attention.data) - 1].filter((cell) =>
    !removed.includes(cell)
  );
  if (!remaining.length) return;
  setRemoved(encode([...removed, ...remaining.slice(0, countToRemove())], grid));
  if (clicks > 1) waiting = { key: getKey(), clicks: clicks - 1 };
}

// Remove the same number of random patches instead: the baseline of the most attended patches.
function removeRandom() {
  if (!shown) return;
  const order = [...Array(shown.grid[0] * shown.grid[1]).keys()];
  const count = getRemovedCells().length || countToRemove();
  for (let i = 0; i < Math.min(count, order.length); i++) { // Fisher-Yates shuffle
    const other = i + Math.floor(Math.random() * (order.length - i));
    [order[i], order[other]] = [order[other], order[i]];
  }
  setRemoved(encode(order.slice(0, count), shown.grid));
}

// --- folds ---

// View, and the value of the state key `open_fold` if the fold is open.
const FOLDS = [["changes_fold", "sliders"], ["knockout_fold", "knockout"]];
const TITLES_OF_FOLDS = store.getLabels("open_fold");
const openFold = (name) => store.set({ open_fold: name });

for (const [view, name] of FOLDS) {
  store.define(view, {
    follows: ["open_fold"],
    render(element, _, { open_fold: open }) {
      const isOpen = open === name;
      render(
        markup`<button type="button" class="fold" aria-expanded=${String(isOpen)}
          @click=${() => openFold(isOpen ? "" : name)}>${TITLES_OF_FOLDS[name]}</button>`,
        element,
      );
    },
  });
}

store.watch(["open_fold"], ({ open_fold: open }) => {
  document.documentElement.dataset.hands = open;
});
store.watch(["first_blocked", "last_blocked"], (state) => {
  if (state.last_blocked >= state.first_blocked) openFold("knockout");
});
// A lesson refers to a control in a fold.
document.addEventListener("vitdemo:reveal", ({ target }) => {
  if (target.closest("#hands-more")) openFold("sliders");
  if (target.closest("#knockout")) openFold("knockout");
});

export const restoreAll = () => setRemoved("");
export const chooseRandomSeed = (most) =>
  imageChanges.change({ seed: Math.floor(Math.random() * (most + 1)) });
