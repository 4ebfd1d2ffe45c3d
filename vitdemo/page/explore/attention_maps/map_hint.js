// A hint on the large map, until the user has used the map once. The browser saves that the map was used.
import { makeElement, markup } from "../../markup.js";

const KEY = "vitdemo-map-used"; // key of localStorage

function isUsed() {
  try {
    return localStorage.getItem(KEY) !== null;
  } catch {
    return false; // localStorage is blocked
  }
}

// Add the hint to `map`. Return `use()`, which is called when the user points at or chooses a patch.
export function createMapHint(map) {
  const hint = makeElement(markup`<p class="hint" ?hidden=${isUsed()}></p>`);

  const pointing = matchMedia("(hover)").matches
    ? "Point at a patch to see its map"
    : "Tap a patch to see its map";
  const showHint = (
    isKeyboard,
  ) => (hint.textContent = isKeyboard ? "Press an arrow key to choose a patch" : pointing);
  showHint(false);
  map.addEventListener("focus", () => showHint(map.matches(":focus-visible")));
  map.addEventListener("blur", () => showHint(false));

  function use() {
    if (hint.hidden) return;
    hint.hidden = true;
    try {
      localStorage.setItem(KEY, "yes");
    } catch {
      // localStorage is blocked or full: the hint is shown again after a reload
    }
  }

  map.append(hint);
  return { use };
}
