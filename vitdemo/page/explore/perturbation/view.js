// The section "Change the image": the changed image, from which the user removes patches, the predictions of
// all models, the attention to the image, and attention knock-out. The removed patches are a text of the view
// state, encoded as `RemovedPatches.encode` of changes.py does: rows, columns, and one bit per patch.
vitdemo.perturbation = (() => {
const { fill, make, mapRow, notice, redraw, rove, saveAs, store } = vitdemo;
const texts = vitdemo.texts.perturbation;
const MAX_CODE_LENGTH = 1100; // of the text of the removed patches
const CHANGES = ["image", "pieces", "rotate", "brightness", "blur", "noise", "jpeg", "seed", "patches"];
const NEEDS = [...CHANGES, "model", "removed"]; // the model, since its grid may be the grid of the patches

// --- removed patches ---

function encode(cells, [rows, columns]) {
  const bits = cells.reduce((sum, cell) => sum | (1n << BigInt(cell)), 0n);
  return cells.length ? `${rows}.${columns}.${bits.toString(16)}` : "";
}

// The removed patches; none if `code` is invalid or of another grid.
function decode(code, [rows, columns]) {
  const [, grid, digits] = /^(\d+\.\d+)\.([0-9a-f]{1,1024})$/.exec(code) ?? [];
  if (grid !== `${rows}.${columns}`) return [];
  const bits = BigInt(`0x${digits}`);
  if (bits >> BigInt(rows * columns)) return [];
  return [...Array(rows * columns).keys()].filter((cell) => (bits >> BigInt(cell)) & 1n);
}

const setRemoved = (code) => store.set({ removed: code });
store.defineParam("removed", { parse: (text) => text.slice(0, MAX_CODE_LENGTH) });

// --- the changed image ---

let shown = null; // the drawn payload
const image = make("img", { alt: "" });
const cells = make("div", { className: "cells", role: "group", "aria-label": texts.patches });
const words = make("small");
const save = make("button", { type: "button", className: "save", text: texts.download });
const picture = make("div", { className: "changed" }, make("div", { className: "patches" }, image, cells),
  make("p", {}, `${texts.help} `, words), save);
const settle = rove(cells, () => [...cells.children], () => shown.grid[1]);

function buildCells([rows, columns]) {
  cells.style.gridTemplate = `repeat(${rows}, 1fr) / repeat(${columns}, 1fr)`;
  cells.replaceChildren(...Array.from({ length: rows * columns }, (_, cell) => {
    const label = fill(texts.remove_patch, { row: Math.floor(cell / columns) + 1, column: (cell % columns) + 1 });
    const button = make("button", { type: "button", "aria-label": label, "data-pick": cell }); // printed, unlike other buttons
    button.addEventListener("click", () => toggle(cell));
    return button;
  }));
  settle(cells.firstElementChild);
}

const removedCells = () => decode(store.state.removed, shown.grid);

function toggle(cell) {
  const removed = removedCells();
  setRemoved(encode(removed.includes(cell) ? removed.filter((each) => each !== cell) : [...removed, cell], shown.grid));
}

function drawPatches() {
  if (!shown) return;
  const removed = removedCells();
  [...cells.children].forEach((button, cell) => button.setAttribute("aria-pressed", String(removed.includes(cell))));
  const count = removed.length ? fill(texts.removed, { count: removed.length, total: cells.childElementCount }) : "";
  const changes = [shown.words, count].filter(Boolean).join(", ") || texts.no_changes;
  image.alt = fill(texts.image, { changes });
  words.textContent = fill(texts.current_changes, { changes });
}

const colour = ([red, green, blue]) => `rgb(${red} ${green} ${blue})`;

function drawImage(element, payload) {
  const before = shown?.grid;
  shown = payload;
  if (picture.parentElement !== element) element.replaceChildren(picture);
  if (String(before) !== String(payload.grid)) {
    buildCells(payload.grid);
    if (before && decode(store.state.removed, before).length) setRemoved(""); // another grid restores all patches
  }
  image.src = payload.image.url;
  cells.style.setProperty("--hole", colour(payload.hole));
  drawPatches();
}

// Save the image with its removed patches, as the models receive it.
save.addEventListener("click", async () => {
  await image.decode();
  const { naturalWidth: side } = image;
  const canvas = make("canvas", { width: side, height: side });
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  context.fillStyle = colour(shown.hole);
  const [rows, columns] = shown.grid;
  const [top, left] = [rows, columns].map((count) => (i) => Math.ceil((i * side) / count)); // first pixel of a patch
  for (const cell of removedCells()) {
    const [i, j] = [Math.floor(cell / columns), cell % columns];
    context.fillRect(left(j), top(i), left(j + 1) - left(j), top(i + 1) - top(i));
  }
  saveAs(canvas.toDataURL("image/png"), "changed.png");
});

store.define("changed_image", { skeleton: "figures", needs: [...CHANGES, "model"], follows: ["removed"], render: drawImage });

// --- predictions, attention maps and knock-out of the changed image ---

store.defineDocument("changed_predictions", NEEDS);
store.defineDocument("knockout", [...NEEDS, "barred_first", "barred_last"]);

const TITLES = {
  mean: () => texts.mean,
  rollout: (layer) => (layer > 1 ? texts.rollout : texts.rollout_of_first),
};

function peak(values) {
  const [flat, columns] = [values.flat(), values[0].length];
  const at = flat.indexOf(Math.max(...flat));
  return fill(texts.strongest, { row: Math.floor(at / columns) + 1, column: (at % columns) + 1, rows: values.length, columns });
}

function panel({ maps, seen, which }, ranking, run, layer) {
  const [title, values] = [fill(TITLES[ranking](layer), { layer }) + which, maps[ranking][layer - 1]];
  return { title, values, seen, alt: `${run}: ${title}`, lines: [peak(values)], fraction: true };
}

let attention = null; // the last answer: { data or error, key }
const key = () => JSON.stringify(NEEDS.map((name) => store.state[name]));
const chosenLayer = ({ order }) => Math.min(store.state.layer ?? Infinity, order.mean.length);

function drawMaps(element, data) {
  const { images, reader, run } = data;
  const layer = chosenLayer(data);
  const intro = fill(texts.attention, { run, reader, layer });
  const panels = Object.keys(TITLES).flatMap((ranking) => images.map((each) => panel(each, ranking, run, layer)));
  redraw(element, mapRow({ intro, panels }));
  if (attention?.data !== data) receive({ data, key: key() });
}

store.define("changed_attention", {
  needs: NEEDS,
  follows: ["layer"],
  render: drawMaps,
  showError(element, error) {
    element.replaceChildren(notice(error));
    receive({ error, key: key() });
  },
});

// --- buttons ---

let waiting = null; // clicks on "Remove most-attended patches" without a ranking: { key of the state, clicks }

function receive(answer) {
  attention = answer;
  say("hands-told", "");
  if (waiting?.key === answer.key) queueMicrotask(removeRanked); // after all views have received their data
  else waiting = null; // the user has changed the image in the meantime
}

function say(place, text) {
  document.querySelector(`#${place} .message`).replaceChildren(...(text ? [notice(text)] : []));
}

const countToRemove = () => Math.max(Math.round(store.state.count ?? 1), 1);

function removeMostAttended() {
  waiting = { key: key(), clicks: waiting?.key === key() ? waiting.clicks + 1 : 1 };
  removeRanked();
}

// Remove patches for one of the waiting clicks. The next one needs the ranking of the image without them.
function removeRanked() {
  if (waiting?.key !== key() || attention?.key !== key()) return;
  const { clicks } = waiting;
  waiting = null;
  if (attention.error) return say("hands-told", attention.error);
  const { grid, order } = attention.data;
  const removed = decode(store.state.removed, grid);
  const remaining = order[store.state.ranking][chosenLayer(attention.data) - 1].filter((cell) => !removed.includes(cell));
  if (!remaining.length) return;
  setRemoved(encode([...removed, ...remaining.slice(0, countToRemove())], grid));
  if (clicks > 1) waiting = { key: key(), clicks: clicks - 1 };
}

// Remove random patches, as many as are removed: the baseline of the most attended patches.
function removeRandom() {
  if (!shown) return;
  const order = [...Array(cells.childElementCount).keys()];
  const count = removedCells().length || countToRemove();
  for (let i = 0; i < Math.min(count, order.length); i++) { // Fisher-Yates shuffle
    const other = i + Math.floor(Math.random() * (order.length - i));
    [order[i], order[other]] = [order[other], order[i]];
  }
  setRemoved(encode(order.slice(0, count), shown.grid));
}

const change = (values) => store.updateControls(Object.fromEntries(Object.entries(values).map(([name, value]) => [name, { value }])));

return {
  removeMostAttended,
  removeRandom,
  restoreAll: () => setRemoved(""),
  drawSeed: (most) => change({ seed: Math.floor(Math.random() * (most + 1)) }),
  apply({ removed, ...values }, note) {
    change(values);
    setRemoved(removed);
    say("hands-note", note);
  },
};
})();
