// Dot plot of all heads: the layer on the x axis, the attention distance on the y axis.
import { make, rove } from "../../components/shared.js";
import { fill, TEXTS } from "../../texts.js";

const texts = TEXTS.attention_maps;

// A round number of at least `value`: 1, 2, 3, 4, 5, 6, 8 or 10 times a power of ten.
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 3, 4, 5, 6, 8, 10].find((digit) => digit * power >= value) * power;
}

// Draw in `place`. A click on a dot calls `choose({layer, head})`.
export function headDots(place, choose) {
  const plot = make("div", { className: "plot" });
  place.append(make("figcaption", { text: texts.dots }), plot);
  let dots = []; // { button, layer, head }
  let layers = 1;
  const settle = rove(plot, () => dots.map(({ button }) => button), () => layers);

  function dot(look, layer, head, top) {
    const [distance, entropy] = [look.distances, look.entropies].map((values) => values[layer - 1][head - 1]);
    const label = fill(texts.thumbnail_head, {
      layer,
      head,
      distance: distance.toFixed(2),
      entropy: entropy.toFixed(2),
    });
    const style = `left: ${(100 * (layer - 0.5)) / look.layers}%; bottom: ${(100 * distance) / top}%`;
    const button = make("button", {
      type: "button",
      title: label,
      "aria-label": label,
      style,
      "data-pick": `${layer}-${head}`,
    }); // printed, unlike other buttons
    button.addEventListener("click", () => choose({ layer, head }));
    return { button, layer, head };
  }

  // The dots are in rows from the largest to the smallest distance of each layer, for the arrow keys.
  function build(look) {
    const focused = dots.find(({ button }) => button === document.activeElement);
    const top = roundUp(Math.max(...look.distances.flat(), 0.01));
    layers = look.layers;
    const ranks = look.distances.map((row) => [...row.keys()].sort((a, b) => row[b] - row[a]));
    dots = ranks[0].flatMap((_, rank) => ranks.map((heads, i) => dot(look, i + 1, heads[rank] + 1, top)));
    const rules = [0, 0.5, 1].map((share) =>
      make(
        "i",
        { "aria-hidden": "true", style: `bottom: ${100 * share}%` },
        make("span", { text: Number((share * top).toPrecision(2)) }),
      )
    );
    const step = Math.ceil(layers / 12);
    const names = ranks.map((_, i) =>
      make("b", {
        "aria-hidden": "true",
        style: `left: ${(100 * (i + 0.5)) / layers}%`,
        text: i % step ? "" : i + 1,
      })
    );
    plot.replaceChildren(...rules, ...names, ...dots.map(({ button }) => button));
    if (focused) {
      dots.find(({ layer, head }) => layer === focused.layer && head === focused.head)?.button.focus({
        preventScroll: true,
      });
    }
  }

  // Mark the chosen head. If the map combines all heads, mark the heads of the layer.
  function press({ of, layer, head }) {
    const isHead = of === "head" || of === "norm-head";
    let chosen = dots[0]?.button;
    for (const each of dots) {
      const isChosen = isHead && each.layer === layer && each.head === head;
      each.button.setAttribute("aria-pressed", String(isChosen));
      each.button.classList.toggle("of-layer", each.layer === layer);
      if (isChosen) chosen = each.button;
    }
    settle(chosen);
  }
  return { build, press };
}
