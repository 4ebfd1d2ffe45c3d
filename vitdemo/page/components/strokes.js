// Choice of patches with the pointer, by touch, and with the keyboard: one element shows all patches. A click or a drag is
// a stroke, which marks patches if it begins at an unmarked patch, and otherwise unmarks patches.
import { ARROW_MOVES, findMiddle, findPatch, moveInGrid } from "./shared.js";

// The cell after a move of the keyboard cursor. The first press shows the cursor in the middle.
const moveCell = (step, cell, grid) => cell === null ? findMiddle(grid) : moveInGrid(step, cell, grid);

function isInside(element, { clientX, clientY }) {
  const { left, right, top, bottom } = element.getBoundingClientRect();
  return clientX >= left && clientX < right && clientY >= top && clientY < bottom;
}

// The marked patches after a stroke.
export function applyStroke(marked, { marks, cells }) {
  const others = marked.filter((cell) => !cells.has(cell));
  return marks ? [...others, ...cells] : others;
}

// Listen on the element `board`. `getGrid()` returns [rows, columns], or null. `isMarked(cell)` tells whether a patch is
// marked. `point(cell)` is called when the cursor moves (null: it is hidden), `show(stroke)` during a stroke (null: it was
// cancelled), and `apply(stroke)` at its end. A stroke is { marks, cells: set of cells }.
export function addStrokes(board, { getGrid, isMarked, point, show, apply }) {
  let cursor = null; // cell under the pointer or the keyboard cursor
  let stroke = null;

  function move(cell) {
    if (cell === cursor) return;
    cursor = cell;
    point(cell);
  }

  function addCell(event) {
    if (!isInside(board, event)) return;
    stroke.cells.add(findPatch(board, getGrid(), event));
    show(stroke);
  }

  function completeStroke(isKept) {
    if (!stroke) return;
    const done = stroke;
    stroke = null;
    isKept ? apply(done) : show(null);
  }

  function press(event) {
    if (!getGrid() || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key in ARROW_MOVES) move(moveCell(ARROW_MOVES[event.key], cursor, getGrid()));
    else if (["Enter", " "].includes(event.key) && cursor !== null) {
      apply({ marks: !isMarked(cursor), cells: new Set([cursor]) });
    } else if (event.key === "Escape") move(null);
    else return;
    event.preventDefault();
  }

  board.addEventListener("pointerdown", (event) => {
    if (!getGrid() || event.button !== 0 || !event.isPrimary) return;
    board.setPointerCapture(event.pointerId);
    stroke = { marks: !isMarked(findPatch(board, getGrid(), event)), cells: new Set() };
    addCell(event);
  });
  board.addEventListener("pointermove", (event) => {
    if (!getGrid()) return;
    if (event.pointerType !== "touch") {
      move(isInside(board, event) ? findPatch(board, getGrid(), event) : null);
    }
    if (stroke) event.getCoalescedEvents().concat(event).forEach(addCell);
  });
  board.addEventListener("pointerup", () => completeStroke(true));
  board.addEventListener("pointercancel", () => completeStroke(false)); // the touch scrolls the page
  for (const type of ["pointerleave", "blur"]) board.addEventListener(type, () => move(null));
  board.addEventListener("keydown", press);
}
