// Bars of class probabilities, one class per list item.
import { markup } from "../markup.js";
import { formatProbability } from "./shared.js";

// The item of a class. `truth` is the true class, or null if it is unknown; `isFirst` marks the prediction.
export function drawClassBar(name, share, { truth = null, isFirst = false } = {}) {
  const isTrue = name === truth;
  const isWrong = isFirst && truth !== null && !isTrue;
  const kinds = [isFirst ? "first" : "", isTrue ? "true" : "", isWrong ? "wrong" : ""].filter(Boolean);
  const mark = isTrue ? " ✓" : isWrong ? " ✗" : "";
  const title = isTrue ? `${name}: the true class` : name;
  return markup`<li class=${kinds.join(" ")}><span title=${title}>${name + mark}</span><div><i
    style="width: ${100 * share}%"></i></div><b>${formatProbability(share)}</b></li>`;
}
