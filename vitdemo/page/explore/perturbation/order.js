// Buttons that remove the most attended patches, and random patches as their baseline.
import { drawActionButton } from "../../components/shared.js";
import { markup, render as draw } from "../../markup.js";
import * as store from "../../store.js";
import { decode, encode, setRemoved } from "./changes.js";

const LABELS = store.getLabels("source");
const countToRemove = () => Math.max(Math.round(store.state.patches_per_click ?? 1), 1);

// The map that the section Attention shows, if it is of attention.
function getMap({ first, orders }) {
  const source = store.state.source in orders ? store.state.source : first;
  const layer = Math.min(store.state.layer ?? Infinity, orders[source].length);
  return { source, layer, order: orders[source][layer - 1] };
}

// Such as "mean of heads, layer 10".
function describeMap(data) {
  const { source, layer } = getMap(data);
  if (data.title) return data.title;
  if (source === "rollout") return `${LABELS.rollout} to layer ${layer}`;
  const head = ["head", "norm-head"].includes(source) ? `, head ${store.state.head}` : "";
  return `${LABELS[source]}, layer ${layer}${head}`;
}

// Remove the most attended patches that remain.
function removeMostAttended(data) {
  const removed = decode(store.state.removed, data.grid);
  const remaining = getMap(data).order.filter((cell) => !removed.includes(cell));
  setRemoved(encode([...removed, ...remaining.slice(0, countToRemove())], data.grid));
}

// Remove the same number of random patches instead: the baseline of the most attended patches.
function removeRandom({ grid }) {
  const order = [...Array(grid[0] * grid[1]).keys()];
  const count = decode(store.state.removed, grid).length || countToRemove();
  for (let i = 0; i < Math.min(count, order.length); i++) { // Fisher-Yates shuffle
    const other = i + Math.floor(Math.random() * (order.length - i));
    [order[i], order[other]] = [order[other], order[i]];
  }
  setRemoved(encode(order.slice(0, count), grid));
}

function render(element, data, { removed }) {
  const count = countToRemove();
  const random = decode(removed, data.grid).length || count;
  draw(
    markup`<div class="actions">
        ${
      drawActionButton(`Remove ${count} ${data.title ? "highest ranked" : "most attended"}`, () =>
        removeMostAttended(data), "hands-most")
    }
        ${drawActionButton(`Remove ${random} random`, () => removeRandom(data), "hands-random")}
      </div>
      <p class="words">Order: ${describeMap(data)}.</p>`,
    element,
  );
}

store.define("patch_order", { follows: ["source", "layer", "removed", "patches_per_click"], render });
