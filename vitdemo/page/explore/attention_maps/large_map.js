// The large map, with its colours, the special tokens, its title, and a sentence about its values.
import {
  drawValues,
  findLargest,
  formatPercent,
  formatRamp,
  getLowestValue,
  getMiddleValue,
  placeRing,
} from "../../components/shared.js";
import { markup, render } from "../../markup.js";
import * as store from "../../store.js";
import { getColours, getPatchValues } from "./selection.js";
import {
  computePatchShare,
  describeFewPatches,
  describeMap,
  describeValues,
  describeWaiting,
} from "./map_texts.js";

const COLOURS = store.getLabels("colour");

// The legend names both ends of the colours, with their values, and the value in the middle unless the scale is linear.
function makeLegend({ source, colour, isSigned }, limit) {
  const formatValue = isSigned
    ? (value) => value.toFixed(2)
    : (value) => (value ? formatPercent(value) : "0");
  const { scale = "linear" } = getColours(source, colour);
  const isLinear = scale === "linear";
  const low = limit * getLowestValue(scale);
  return {
    low: isSigned ? `opposite (${formatValue(-limit)})` : `less${low > 0 ? ` (≤ ${formatValue(low)})` : ""}`,
    middle: isLinear ? "" : formatValue(limit * getMiddleValue(scale)),
    top: isSigned ? `similar (${formatValue(limit)})` : `more attention (${formatValue(limit)})`,
    kind: isLinear ? "" : `${COLOURS[scale]} scale`,
  };
}

function describeLowShare(trace, selection, values) {
  const share = computePatchShare(trace, selection, values);
  return share < 0.2 ? `All patches together receive only ${formatPercent(share)} of the attention.` : "";
}

// The tokens that are not patches, with their weights.
function drawTokens({ tokens: { answering, found } }, { source, chosen }, values) {
  const drawButton = (each) => {
    const { code, label, indices } = each;
    const weight = values && indices.length === 1 && source !== "similar"
      ? formatPercent(values[indices[0]])
      : "";
    return markup`<button type="button" data-code=${code} aria-pressed=${
      String(each === chosen)
    } @click=${() =>
      store.set({ token: code === answering.code ? "" : code })}>${label} <b>${weight}</b></button>`;
  };
  return found.map(drawButton);
}

// `findPart(name)` returns an element of the view. Return `draw`, which returns the values of the patches, or null if the
// map is not loaded. `top` is the maximum of a common colour scale, or null.
export function createLargeMap(findPart) {
  const large = findPart("large");

  function drawTexts(trace, selection, values) {
    const title = describeMap(trace, selection);
    const remarks = values
      ? [describeLowShare(trace, selection, values), describeFewPatches(trace, selection, values)]
      : [];
    findPart("title").textContent = title;
    findPart("little").textContent = remarks.join(" ").trim();
    findPart("pointed").textContent = values
      ? describeValues(trace, selection, values)
      : describeWaiting(trace, selection);
    large.setAttribute("aria-label", `Large map. ${title}`);
  }

  return function draw(trace, selection, values, top) {
    const { source, set, colour, chosen, pointed, isSigned } = selection;
    drawTexts(trace, selection, values);
    render(drawTokens(trace, selection, values), findPart("tokens"));
    findPart("map").classList.toggle("waits", !values);
    placeRing(findPart("ring.chosen"), trace.grid, chosen.number);
    placeRing(findPart("ring.under"), trace.grid, pointed ?? undefined);
    if (!values) return null;
    const map = getPatchValues(trace, values);
    const limit = source === set && top !== null ? top : findLargest(map);
    drawValues(large.querySelector("canvas"), map, trace.grid, { top: limit, ...getColours(source, colour) });
    findPart("legend").style.setProperty("--ramp", formatRamp(isSigned));
    for (const [name, text] of Object.entries(makeLegend(selection, limit))) {
      findPart(name).textContent = text;
    }
    return map;
  };
}
