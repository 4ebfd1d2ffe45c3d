// The image with its patch grid, from which the user removes patches.
import {
  drawActionButton,
  formatPatchStyle,
  makeCanvas,
  placeRing,
  saveAs,
} from "../../components/shared.js";
import { addStrokes, applyStroke } from "../../components/strokes.js";
import { makeElement, markup, render as draw } from "../../markup.js";
import * as store from "../../store.js";
import { decode, encode, setRemoved } from "./changes.js";

const formatColour = ([red, green, blue]) => `rgb(${red} ${green} ${blue})`;
const getRemovedCells = ({ grid }) => decode(store.state.removed, grid);

// Such as "4 × 4 pieces shuffled, blur 2% of the side"; "" without other changes than removed patches.
function describeChanges({ pieces, strengths }) {
  const { titles, values, units } = strengths;
  const describeStrength = (title, i) =>
    `${title.replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase())} ${values[i]} ${units[i]}`;
  return [
    ...(pieces > 1 ? [`${pieces} × ${pieces} pieces shuffled`] : []),
    ...titles.map((title, i) => describeStrength(title, i).replace(" %", "%")),
  ].join(", ");
}

function describeCell(cell, [, columns], removed) {
  const place = `Row ${Math.floor(cell / columns) + 1}, column ${(cell % columns) + 1}`;
  return removed.includes(cell) ? `${place}: removed` : place;
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

// The removed patches, as squares with a cross: a patch can already have the mean colour.
const drawRemovedPatches = (cells, grid) =>
  cells.map((cell) => markup`<i class="removed" style=${formatPatchStyle(cell, grid)}></i>`);

function create(element) {
  let data = null; // the drawn payload
  let [last, history] = [null, []]; // the drawn removed patches, and those before each change, as encoded texts
  const board = makeElement(markup`<div class="board" tabindex="0" role="application"></div>`);
  const ring = makeElement(markup`<i class="ring" hidden></i>`);
  const place = makeElement(markup`<p class="read" role="status"></p>`); // for screen readers

  function drawBoard(removed) {
    const { grid: [rows, columns], image, removed_colour: colour } = data;
    const changes = describeChanges(data);
    board.style.cssText = `--rows: ${rows}; --columns: ${columns}; --removed: ${formatColour(colour)}`;
    board.ariaLabel =
      `Image with ${rows} × ${columns} patches, ${removed.length} of them removed. Arrow keys move the cursor, and Enter removes or restores a patch.`;
    draw(
      markup`<img src=${image.url} alt="" draggable="false"><i class="lines"></i>${
        drawRemovedPatches(removed, data.grid)
      }${ring}`,
      board,
    );
    draw(
      markup`${board}${place}
        <p class="words">${
        changes ? `Other changes: ${changes}. ` : ""
      }The image's mean colour replaces each removed patch.</p>
        <div class="actions">
          <button type="button" class="vd-download" ?disabled=${!history
        .length} @click=${restoreLast}>Undo</button>
          <button type="button" class="vd-download" id="hands-back" ?disabled=${!removed.length}
            @click=${restoreAll}>Restore all</button>
          ${drawActionButton("Download PNG", () => save(board.querySelector("img"), data))}
        </div>`,
      element,
    );
  }

  function drawAll() {
    if (last !== null && last !== store.state.removed) history.push(last);
    last = store.state.removed;
    drawBoard(getRemovedCells(data));
  }

  function restoreLast() {
    last = history.pop();
    setRemoved(last);
    if (!history.length) board.focus({ preventScroll: true }); // a disabled button loses the focus
  }

  function restoreAll() {
    setRemoved("");
    board.focus({ preventScroll: true });
  }

  function render(payload) {
    const before = data?.grid;
    data = payload;
    if (before && String(before) !== String(data.grid)) {
      [last, history] = [null, []];
      if (decode(store.state.removed, before).length) setRemoved(""); // another grid restores all patches
    }
    drawAll();
  }

  addStrokes(board, {
    getGrid: () => data?.grid,
    isMarked: (cell) => getRemovedCells(data).includes(cell),
    point(cell) {
      placeRing(ring, data.grid, cell ?? undefined);
      place.textContent = cell === null ? "" : describeCell(cell, data.grid, getRemovedCells(data));
    },
    show: (stroke) => drawBoard(stroke ? applyStroke(getRemovedCells(data), stroke) : getRemovedCells(data)),
    apply: (stroke) => setRemoved(encode(applyStroke(getRemovedCells(data), stroke), data.grid)),
  });
  return { render };
}

store.define("changed_image", { skeleton: "figures", follows: ["removed"], create });
