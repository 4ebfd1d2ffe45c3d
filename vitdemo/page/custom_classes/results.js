// Results of the classifier: accuracy, coloured confusion matrix, and the misclassified images next to it. A click on a
// cell of the matrix shows only the images of the cell.
import {
  createRoving,
  drawActionButton,
  drawMarkdown,
  drawNotice,
  formatShade,
  formatSheetStyle,
} from "../components/shared.js";
import { drawTable } from "../components/table.js";
import { markup, nothing, render } from "../markup.js";
import * as store from "../store.js";
import { fill, fillPlural } from "../texts.js";

const MATRIX_TEXT = "Confusion matrix";

// The matrix, whose cells of errors are buttons; `choose` is called with true and predicted class.
function drawMatrix({ classes, matrix }, chosen, choose) {
  const most = Math.max(1, ...matrix.flatMap((row, i) => row.filter((_, j) => i !== j))); // the largest error count
  const drawCell = (count, i, j) => {
    const total = matrix[i].reduce((sum, each) => sum + each, 0);
    const label = `${count} of ${total} images of ${classes[i]} predicted as ${classes[j]}`;
    const style = i === j
      ? formatShade("#1d4ed8", count / Math.max(total, 1))
      : formatShade("#c2410c", count / most);
    if (i === j || !count) return markup`<td title=${label} style=${style}>${count}</td>`;
    const isChosen = chosen?.join() === `${i},${j}`;
    const name = `${i}-${j}`;
    const click = () => choose(isChosen ? null : [i, j]);
    return markup`<td style=${style}><button type="button" title=${label} aria-label=${label} data-pick=${name}
      aria-pressed=${String(isChosen)} tabindex=${
      name === picks[0] ? 0 : -1
    } @click=${click}>${count}</button></td>`;
  };
  const picks = matrix.flatMap((row, i) =>
    row.flatMap((count, j) => (i !== j && count ? [`${i}-${j}`] : []))
  );
  const keys = createRoving(() => picks.length);
  const head = ["true ↓ predicted →", ...classes].map((text) => markup`<th scope="col">${text}</th>`);
  const drawRow = (counts, i) =>
    markup`<tr><th scope="row">${classes[i]}</th>${counts.map((count, j) => drawCell(count, i, j))}</tr>`;
  return markup`<div class="vd-scroll" tabindex=${
    picks.length ? nothing : 0
  } role="group" aria-label=${MATRIX_TEXT}>
    <table @focusin=${keys.focus} @keydown=${keys.press}>
      <thead><tr>${head}</tr></thead>
      <tbody>${matrix.map(drawRow)}</tbody>
    </table>
  </div>`;
}

// The misclassified images of the chosen cell, or all.
function drawErrors({ classes, errors, error_count: count, sheet }, chosen, choose) {
  if (!count) return markup`<p>All images were classified correctly.</p>`;
  const drawFigure = ({ true: truth, predicted, confidence }, at) => {
    if (chosen && (chosen[0] !== truth || chosen[1] !== predicted)) return nothing;
    const names = { true: classes[truth], predicted: classes[predicted] };
    const style = formatSheetStyle(sheet, at, errors.length);
    return markup`<figure><div class="vd-cut" role="img" aria-label=${
      fill("{true}, predicted as {predicted}", names)
    } style=${style}></div>
      <figcaption>${
      fill("{true} → {predicted}", names)
    }<small>${` ${confidence}`}</small></figcaption></figure>`;
  };
  return markup`<h3>${fillPlural(count, "{count} misclassified image", "{count} misclassified images")}</h3>
    <div class="vd-row" style="--vd-width: 84px">${errors.map(drawFigure)}</div>
    ${chosen ? drawActionButton("Show all", () => choose(null)) : nothing}`;
}

function drawMetrics({ metrics }) {
  const columns = [
    "class",
    "precision, %",
    "recall, %",
    "F1, %",
    "images",
  ];
  return markup`<details><summary>Per-class metrics</summary>${
    drawTable({ columns, rows: metrics, file: "own-metrics" })
  }</details>`;
}

store.define("custom_classes_result", {
  create(element) {
    element.classList.add("article");
    let [drawn, chosen] = [null, null]; // the drawn payload, and the chosen cell of the matrix

    function choose(cell) {
      chosen = cell;
      draw();
    }

    function draw() {
      const { about, accuracy, sample, told, untested, warning } = drawn;
      if (!about) return render(told ? markup`<p class="quiet" role="status">${told}</p>` : nothing, element);
      const lines = about.map((text) => markup`<p>${drawMarkdown(text)}</p>`);
      const end = markup`<details><summary>About</summary>${lines}</details>
        <p class="quiet" role="status">${told}</p>`;
      const drawResults = () =>
        markup`<p class="accuracy" role="status"><strong>${accuracy}</strong>${` ${sample}`}</p>
          ${warning ? drawNotice(warning) : nothing}
          <div class="pair">
            <div><h3>${MATRIX_TEXT}</h3>${drawMatrix(drawn, chosen, choose)}</div>
            <div class="errors">${drawErrors(drawn, chosen, choose)}</div>
          </div>
          ${drawMetrics(drawn)}${end}`;
      const drawUntested = () => markup`<p role="status">${drawMarkdown(untested)}</p>${end}`;
      return render(untested ? drawUntested() : drawResults(), element);
    }

    return {
      render(data) {
        if (data !== drawn) chosen = null;
        drawn = data;
        draw();
      },
    };
  },
});
