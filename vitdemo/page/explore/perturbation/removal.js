// Removal of the most attended patches, and of random patches.
import * as store from "../../store.js";
import { decode, encode, setRemoved } from "./changes.js";

const VIEW = "changed_attention";
const RANKED = "vitdemo:ranked"; // event: the view of the attention has drawn the ranking for the current image

const getKey = () => JSON.stringify(store.listNeeds([VIEW]).map((name) => store.state[name]));
const countToRemove = () => Math.max(Math.round(store.state.patches_per_click ?? 1), 1);

// The layer that the view shows; `order` contains the ranked patches of each layer.
export const getChosenLayer = ({ order }) => Math.min(store.state.layer ?? Infinity, order.mean.length);

// Send the ranking of the current image to its buttons, or the `error` why there is none.
export const sendRanking = (detail) =>
  document.dispatchEvent(new CustomEvent(RANKED, { detail: { ...detail, key: getKey() } }));

// Remove the same number of random patches instead: the baseline of the most attended patches.
function removeRandom(grid) {
  const order = [...Array(grid[0] * grid[1]).keys()];
  const count = decode(store.state.removed, grid).length || countToRemove();
  for (let i = 0; i < Math.min(count, order.length); i++) { // Fisher-Yates shuffle
    const other = i + Math.floor(Math.random() * (order.length - i));
    [order[i], order[other]] = [order[other], order[i]];
  }
  setRemoved(encode(order.slice(0, count), grid));
}

// Remove the most attended patches that remain.
function removeRanked({ grid, order }) {
  const removed = decode(store.state.removed, grid);
  const ranked = order[store.state.ranking][getChosenLayer({ order }) - 1];
  const remaining = ranked.filter((cell) => !removed.includes(cell));
  if (!remaining.length) return false;
  setRemoved(encode([...removed, ...remaining.slice(0, countToRemove())], grid));
  return true;
}

// Return the functions of the buttons, and the `problem` why no patches were removed. `draw` is called when it changes.
export function createRemoval(draw) {
  let ranking = null; // the last ranking: { data or error, key }
  let waiting = null; // clicks without a ranking: { key of the state, clicks }
  const removal = { problem: "", removeMostAttended, removeRandom };

  function showProblem(message) {
    removal.problem = message;
    draw();
  }

  function removeMostAttended() {
    waiting = { key: getKey(), clicks: waiting?.key === getKey() ? waiting.clicks + 1 : 1 };
    removeNext();
  }

  // Remove patches for one of the waiting clicks. The next click needs the ranking of the image without these patches.
  function removeNext() {
    if (waiting?.key !== getKey() || ranking?.key !== getKey()) return;
    const { clicks } = waiting;
    waiting = null;
    if (ranking.error) return showProblem(ranking.error);
    if (removeRanked(ranking.data) && clicks > 1) waiting = { key: getKey(), clicks: clicks - 1 };
  }

  document.addEventListener(RANKED, ({ detail }) => {
    const isSame = ranking?.data && ranking.data === detail.data; // another layer is drawn
    if (isSame) return;
    ranking = detail;
    showProblem("");
    if (waiting?.key === ranking.key) queueMicrotask(removeNext); // after all views have received their data
    else waiting = null; // the user has changed the image in the meantime
  });
  return removal;
}
