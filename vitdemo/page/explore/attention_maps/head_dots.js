// Dot plot of all heads: the layer on the x axis, the attention distance on the y axis.
import { createRoving, setTabStop } from "../../components/shared.js";
import { markup, render } from "../../markup.js";
import { fill, THUMBNAIL_HEAD } from "../../texts.js";

// A round number of at least `value`: 1, 2, 3, 4, 5, 6, 8 or 10 times a power of ten.
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 3, 4, 5, 6, 8, 10].find((digit) => digit * power >= value) * power;
}

// Draw the heads of `trace` in `place`, and mark the chosen head. If the map combines all heads, mark the heads of its
// layer. A click on a dot calls `choose({layer, head})`.
export function drawHeadDots(place, trace, { source, layer: chosenLayer, head: chosenHead }, choose) {
  const { layers, distances } = trace;
  const top = roundUp(Math.max(...distances.flat(), 0.01));
  const hasChosenHead = source === "head" || source === "norm-head";
  // In rows from the largest to the smallest distance of each layer, for the arrow keys.
  const ranks = distances.map((row) => [...row.keys()].sort((a, b) => row[b] - row[a]));
  const order = ranks[0].flatMap((_, rank) => ranks.map((row, i) => ({ layer: i + 1, head: row[rank] + 1 })));
  const isChosen = ({ layer, head }) => hasChosenHead && layer === chosenLayer && head === chosenHead;
  const drawDot = ({ layer, head }) => {
    const [distance, entropy] = [distances, trace.entropies].map((values) => values[layer - 1][head - 1]);
    const style = `left: ${(100 * (layer - 0.5)) / layers}%; bottom: ${(100 * distance) / top}%`;
    const numbers = { layer, head, distance: distance.toFixed(2), entropy: entropy.toFixed(2) };
    const label = fill(THUMBNAIL_HEAD, numbers);
    const kind = layer === chosenLayer ? "of-layer" : "";
    // A button with data-pick is printed, unlike other buttons.
    return markup`<button type="button" class=${kind} title=${label} aria-label=${label}
      aria-pressed=${String(isChosen({ layer, head }))} data-pick="${layer}-${head}" style=${style}
      @click=${() => choose({ layer, head })}></button>`;
  };
  const keys = createRoving(() => layers);
  const focused = place.querySelector("button:focus")?.dataset.pick;
  const drawRule = (share) =>
    markup`<i aria-hidden="true" style="bottom: ${100 * share}%"><span>${
      Number((share * top).toPrecision(2))
    }</span></i>`;
  const step = Math.ceil(layers / 12);
  const drawName = (_, i) =>
    markup`<b aria-hidden="true" style="left: ${(100 * (i + 0.5)) / layers}%">${i % step ? "" : i + 1}</b>`;
  render(
    markup`<figcaption>Attention distance of each head by layer, in patches</figcaption>
      <div class="plot" @focusin=${keys.focus} @keydown=${keys.press}>${[0, 0.5, 1].map(drawRule)}${
      ranks.map(drawName)
    }${order.map(drawDot)}</div>`,
    place,
  );
  const buttons = [...place.querySelectorAll("button")];
  setTabStop(buttons, buttons[Math.max(order.findIndex(isChosen), 0)]);
  if (focused) buttons.find((each) => each.dataset.pick === focused)?.focus({ preventScroll: true });
}
