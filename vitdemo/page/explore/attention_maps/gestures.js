// Choice of a patch on the large map with the pointer, by touch, and with the keyboard.
import { ARROW_MOVES, findMiddle, findPatch, moveInGrid } from "../../components/shared.js";

// The patch after a move of the keyboard cursor. The first press shows the cursor at the chosen patch or in the middle.
const movePatch = (move, { grid, pointed, chosen }) =>
  pointed === null ? chosen ?? findMiddle(grid) : moveInGrid(move, pointed, grid);

// Listen on the element `map`. `getPatches()` returns { grid, pointed (patch under the pointer or the keyboard cursor, or
// null), chosen (chosen patch, or undefined) }, or null without a map. `point(number)` changes the pointed patch, and
// `toggle(number)` the chosen patch. `use()` is called when the user moves the cursor or chooses a patch.
export function addPatchGestures(map, getPatches, { point, toggle, use }) {
  function press(event) {
    const patches = getPatches();
    if (!patches || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key in ARROW_MOVES) {
      use();
      point(movePatch(ARROW_MOVES[event.key], patches));
    } else if (event.key === "Enter" || event.key === " ") {
      if (patches.pointed !== null) toggle(patches.pointed);
    } else if (event.key === "Escape") {
      point(null);
      toggle(null);
    } else return;
    event.preventDefault();
  }

  const findNumber = (event) => findPatch(map, getPatches().grid, event);
  map.addEventListener("pointermove", (event) => {
    if (getPatches() && event.pointerType !== "touch") point(findNumber(event));
  });
  map.addEventListener("click", (event) => {
    if (!getPatches()) return;
    use();
    toggle(findNumber(event));
  });
  for (const type of ["pointerleave", "blur"]) map.addEventListener(type, () => point(null));
  map.addEventListener("keydown", press);
}
