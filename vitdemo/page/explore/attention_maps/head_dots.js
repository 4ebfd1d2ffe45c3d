// Dot plot of all heads: the layer on the x axis, the attention distance on the y axis.
import { roving } from "../../components/shared.js";
import { markup, render } from "../../markup.js";
import { fill, TEXTS } from "../../texts.js";

const texts = TEXTS.attention_maps;

// A round number of at least `value`: 1, 2, 3, 4, 5, 6, 8 or 10 times a power of ten.
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 3, 4, 5, 6, 8, 10].find((digit) => digit * power >= value) * power;
}

function dot(look, { layer, head, top, isOfLayer, isChosen, isStop }, choose) {
  const [distance, entropy] = [look.distances, look.entropies].map((values) => values[layer - 1][head - 1]);
  const [left, bottom] = [(100 * (layer - 0.5)) / look.layers, (100 * distance) / top];
  const label = fill(texts.thumbnail_head, {
    layer,
    head,
    distance: distance.toFixed(2),
    entropy: entropy.toFixed(2),
  });
  // A button with data-pick is printed, unlike others.
  return markup`<button type="button" class=${isOfLayer ? "of-layer" : ""} title=${label} aria-label=${label}
    aria-pressed=${String(isChosen)} tabindex=${isStop ? 0 : -1} data-pick="${layer}-${head}"
    style="left: ${left}%; bottom: ${bottom}%" @click=${() => choose({ layer, head })}></button>`;
}

// Draw the heads of `look` in `place`, and mark the chosen head. If the map combines all heads, mark those of its layer.
// A click on a dot calls `choose({layer, head})`.
export function drawHeadDots(place, look, { of, layer: chosenLayer, head: chosenHead }, choose) {
  const { layers, heads, distances } = look;
  const top = roundUp(Math.max(...distances.flat(), 0.01));
  const hasChosenHead = of === "head" || of === "norm-head";
  const stop = hasChosenHead ? (chosenLayer - 1) * heads + chosenHead - 1 : 0;
  const dots = Array.from({ length: layers * heads }, (_, i) => {
    const [layer, head] = [Math.floor(i / heads) + 1, (i % heads) + 1];
    const isOfLayer = layer === chosenLayer;
    const isChosen = hasChosenHead && i === stop;
    return dot(look, { layer, head, top, isOfLayer, isChosen, isStop: i === stop }, choose);
  });
  // The arrow keys move in rows from the largest to the smallest distance of each layer.
  const ranks = distances.map((row) => [...row.keys()].sort((a, b) => row[b] - row[a]));
  const order = ranks[0].flatMap((_, rank) => ranks.map((row, i) => i * heads + row[rank]));
  const keys = roving(() => layers, false, ({ children }) => {
    const buttons = [...children].filter(({ tagName }) => tagName === "BUTTON");
    return order.map((i) => buttons[i]);
  });
  const rule = (share) =>
    markup`<i aria-hidden="true" style="bottom: ${100 * share}%"><span>${
      Number((share * top).toPrecision(2))
    }</span></i>`;
  const step = Math.ceil(layers / 12);
  const name = (_, i) =>
    markup`<b aria-hidden="true" style="left: ${(100 * (i + 0.5)) / layers}%">${i % step ? "" : i + 1}</b>`;
  render(
    markup`<figcaption>${texts.dots}</figcaption>
      <div class="plot" @focusin=${keys.focus} @keydown=${keys.press}>${[0, 0.5, 1].map(rule)}${
      ranks.map(name)
    }${dots}</div>`,
    place,
  );
}
