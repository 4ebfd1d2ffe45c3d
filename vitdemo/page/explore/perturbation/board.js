// The changed image, from which the user removes patches.
import {
  createRoving,
  drawActionButton,
  drawNotice,
  makeCanvas,
  makeRange,
  saveAs,
} from "../../components/shared.js";
import { markup, nothing, render as draw } from "../../markup.js";
import * as store from "../../store.js";
import { decode, encode, setRemoved } from "./changes.js";
import { createRemoval } from "./removal.js";

const formatColour = ([red, green, blue]) => `rgb(${red} ${green} ${blue})`;
const getRemovedCells = ({ grid }) => decode(store.state.removed, grid);

function toggle(cell, data) {
  const removed = getRemovedCells(data);
  const others = removed.filter((each) => each !== cell);
  setRemoved(encode(others.length < removed.length ? others : [...removed, cell], data.grid));
}

// Such as "4 × 4 pieces shuffled, blur 2% of the side, 3 of 64 patches removed"; "" without changes.
function describeChanges({ pieces, strengths, grid: [rows, columns] }, removed) {
  const describeStrength = ({ title, value, unit }) =>
    `${title.replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase())} ${value} ${unit}`;
  return [
    ...(pieces > 1 ? [`${pieces} × ${pieces} pieces shuffled`] : []),
    ...strengths.map((each) => describeStrength(each).replace(" %", "%")),
    ...(removed.length ? [`${removed.length} of ${rows * columns} patches removed`] : []),
  ].join(", ");
}

// A button with data-pick is printed, unlike other buttons.
function drawPatch(cell, isRemoved, data) {
  const columns = data.grid[1];
  const label = `Remove row ${Math.floor(cell / columns) + 1}, column ${(cell % columns) + 1}`;
  return markup`<button type="button" aria-label=${label} data-pick=${cell} tabindex=${cell ? -1 : 0}
    aria-pressed=${String(isRemoved)} @click=${() => toggle(cell, data)}></button>`;
}

function drawPatches(data, removed, changes) {
  const { grid: [rows, columns], image, removed_colour: colour } = data;
  const style = `grid-template: repeat(${rows}, 1fr) / repeat(${columns}, 1fr); --removed: ${
    formatColour(colour)
  }`;
  const keys = createRoving(() => columns);
  return markup`<div class="patches">
    <img src=${image.url} alt="The image that all models receive. Changes: ${changes || "none"}">
    <div class="cells" role="group" aria-label="Patches: press one to remove or restore it" style=${style} @focusin=${keys.focus}
      @keydown=${keys.press}>${
    makeRange(rows * columns, (cell) => drawPatch(cell, removed.includes(cell), data))
  }</div>
  </div>`;
}

// Save the image with its removed patches, as the models receive it.
async function save(image, data) {
  await image.decode();
  const { naturalWidth: side } = image;
  const canvas = makeCanvas(side, side);
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  context.fillStyle = formatColour(data.removed_colour);
  const [rows, columns] = data.grid;
  const [top, left] = [rows, columns].map((count) => (i) => Math.ceil((i * side) / count)); // first pixel of a patch
  for (const cell of getRemovedCells(data)) {
    const [i, j] = [Math.floor(cell / columns), cell % columns];
    context.fillRect(left(j), top(i), left(j + 1) - left(j), top(i + 1) - top(i));
  }
  saveAs(canvas.toDataURL("image/png"), "changed.png");
}

function create(element) {
  let data = null; // the drawn payload
  const removal = createRemoval(() => data && drawAll());

  function drawAll() {
    const removed = getRemovedCells(data);
    const changes = describeChanges(data, removed);
    draw(
      markup`<div class="changed">
        ${drawPatches(data, removed, changes)}
        <p class="words">${
        changes ? `Current changes: ${changes}.` : "Click a patch to remove it, and again to restore it."
      }</p>
        <div class="actions">
          ${drawActionButton("Remove most-attended patches", removal.removeMostAttended, "hands-most")}
          ${drawActionButton("Remove random patches", () => removal.removeRandom(data.grid), "hands-random")}
          ${drawActionButton("Download PNG", () => save(element.querySelector("img"), data))}
        </div>
        <div>${removal.problem ? drawNotice(removal.problem) : nothing}</div>
      </div>`,
      element,
    );
  }

  function render(payload) {
    const before = data?.grid;
    data = payload;
    if (before && String(before) !== String(data.grid)) {
      draw(nothing, element); // Tab reaches the first patch of another grid
      if (decode(store.state.removed, before).length) setRemoved(""); // another grid restores all patches
    }
    drawAll();
  }

  return { render };
}

store.define("changed_image", { skeleton: "figures", follows: ["removed"], create });
