// The faithfulness scores below the maps, as bars.
import { formatSigned } from "../../components/grid.js";
import { markup, nothing } from "../../markup.js";

export function drawBar(
  { low, high, random, baselines },
  { points, verdict, title, is_better },
  { colour, sign },
) {
  const text = formatSigned(points, 1);
  const computePlace = (value) => (100 * (value - low)) / (high - low || 1);
  const drawPart = (className, from, to, name = nothing) => {
    const [left, right] = [computePlace(Math.min(from, to)), computePlace(Math.max(from, to))];
    return markup`<i class=${className} style="left: ${left}%; width: ${right - left}%" title=${name}></i>`;
  };
  const label = `Faithfulness score, ${text} points: ${title}`;
  return markup`<div class="score" title=${label}>
    <div class="track" role="img" aria-label=${label}>${drawPart("random", ...random)}${
    drawPart(`value${is_better ? " is-better" : ""}`, 0, points)
  }${baselines.map(([name, value]) => drawPart("line", value, value, `${name} ${value.toFixed(1)}`))}</div>
    <p><i class="swatch" style="background: ${colour}"></i>${
    sign ? markup`<b style="color: ${colour}">${sign}</b> ` : nothing
  }<b>${text}</b>${` ${verdict}`}</p>
  </div>`;
}

export function drawBarLegend({ low, high, baselines }) {
  const [from, to] = [low, high].map((value) => value.toFixed(0).replace("-", "−"));
  const names = baselines.map(([title]) => title.toLowerCase()).join(", ");
  const words = [
    `Bars: faithfulness score, ${from} to ${to} points.`,
    `Grey: random orders. Lines: ${names}.`,
  ];
  return markup`<span class="bars">${words.join(" ")}</span>`;
}
