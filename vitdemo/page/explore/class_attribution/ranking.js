// A ranking by hand: the user chooses the patches that the model needs most. `ranking.py` compares their removal with the
// maps, when the ranking is complete.
import { drawActionButton, formatPatchStyle, placeRing } from "../../components/shared.js";
import { addStrokes, applyStroke } from "../../components/strokes.js";
import { makeElement, markup, nothing, render } from "../../markup.js";
import * as store from "../../store.js";

const RANKING = "attribution.ranking"; // state key: see `ranking.py`; "" without a ranking
const MOST = 10; // patches
const NEEDS_FULL_VERSION = "The full version of vitdemo compares your ranking with the maps.";

export const isRanking = (state) => state[RANKING] !== "";
export const startRanking = ({ grid }) => setRanking([], grid);

const setRanking = (patches, grid) => store.set({ [RANKING]: [...grid, ...patches].join(".") });
const countPatches = ({ grid: [rows, columns] }) => Math.min(MOST, rows * columns);

// The ranked patches; none if the ranking belongs to another grid.
function readRanking(data) {
  const [rows, columns, ...patches] = store.state[RANKING].split(".").map(Number);
  const isKnown = String(data.grid) === String([rows, columns]) && new Set(patches).size === patches.length;
  return isKnown
    ? patches.filter((patch) => patch >= 0 && patch < rows * columns).slice(0, countPatches(data))
    : [];
}

function describePatch(patch, { grid: [, columns] }, ranked) {
  const place = `Row ${Math.floor(patch / columns) + 1}, column ${(patch % columns) + 1}`;
  return ranked.includes(patch) ? `${place}: rank ${ranked.indexOf(patch) + 1}` : place;
}

// Return an element, and a function that draws it. `view` is the view with the comparison.
export function createRanking(view) {
  let data = null;
  const board = makeElement(markup`<div class="board" tabindex="0" role="application"></div>`);
  const ring = makeElement(markup`<i class="ring" hidden></i>`);
  const place = makeElement(markup`<p class="read" role="status"></p>`); // for screen readers
  const element = makeElement(
    markup`<div class="removal" role="group" aria-label="Your ranking of patches"></div>`,
  );

  function drawBoard(ranked) {
    const [rows, columns] = data.grid;
    board.style.cssText = `--rows: ${rows}; --columns: ${columns}`;
    board.ariaLabel =
      `Image with ${rows} × ${columns} patches, ${ranked.length} of them ranked. Arrow keys move the cursor, and Enter adds a patch to the ranking or removes it.`;
    render(
      markup`<img src=${data.seen.url} alt="" draggable="false"><i class="lines"></i>${
        ranked.map((patch, i) => markup`<b style=${formatPatchStyle(patch, data.grid)}>${i + 1}</b>`)
      }${ring}`,
      board,
    );
    const isShown = document.querySelector(`[data-view=${view}]`); // not on the static site
    render(
      markup`${board}${place}<div class="caption">
        <p class="left"><strong>Your ranking: ${ranked.length} of ${countPatches(data)} patches</strong></p>
        <p class="grid">Choose the patches that ${data.run} needs most for ${data.target}, the most important one first.</p>
        ${
        isShown || ranked.length < countPatches(data)
          ? nothing
          : markup`<p class="grid">${NEEDS_FULL_VERSION}</p>`
      }
        <div class="actions">${drawActionButton("Clear", clear)} ${
        drawActionButton("Close ranking", close)
      }</div>
      </div>`,
      element,
    );
  }

  function clear() {
    setRanking([], data.grid);
    board.focus({ preventScroll: true });
  }
  const close = () => store.set({ [RANKING]: "" });
  const apply = (stroke) => applyStroke(readRanking(data), stroke).slice(0, countPatches(data));

  addStrokes(board, {
    getGrid: () => data?.grid,
    isMarked: (patch) => readRanking(data).includes(patch),
    point(patch) {
      placeRing(ring, data.grid, patch ?? undefined);
      place.textContent = patch === null ? "" : describePatch(patch, data, readRanking(data));
    },
    show: (stroke) => drawBoard(stroke ? apply(stroke) : readRanking(data)),
    apply: (stroke) => setRanking(apply(stroke), data.grid),
  });
  return {
    element,
    show(shown) {
      data = shown;
      drawBoard(readRanking(data));
    },
  };
}
