// The confusion matrix as an SVG, for files.
import { makeElement, markup, nothing, shapes } from "../../markup.js";

const [CELL, LETTER, GAP] = [44, 7.5, 10]; // pixels: side of a cell, width of a letter, and space around labels
const WHITE = [255, 255, 255];

// The colours of correct predictions and errors, or of positive and negative differences.
export const COLOURS = { correct: "#1d4ed8", positive: "#c2410c", negative: "#7c4fd0" };

export const getCellColour = ({ signed, strengths }, i, j) => {
  if (!signed && i === j) return COLOURS.correct;
  return strengths[i][j] > 0 ? COLOURS.positive : COLOURS.negative;
};

// The colour of a cell: white with at most 55% of the colour `hex`, as on the page.
function computeColour(hex, strength) {
  const share = 0.55 * Math.min(Math.abs(strength), 1);
  const parts = WHITE.map((white, k) => {
    const part = parseInt(hex.slice(1 + 2 * k, 3 + 2 * k), 16);
    return Math.round(share * part + (1 - share) * white);
  });
  return `rgb(${parts.join(",")})`;
}

export function drawMatrixImage(value) {
  const { classes, file, texts } = value;
  const labels = LETTER * Math.max(...classes.map((name) => name.length)) + 2 * GAP;
  const top = labels + 3 * GAP;
  const drawText = (text, x, y, anchor, turn = 0) =>
    shapes`<text x=${x} y=${y} text-anchor=${anchor} dominant-baseline="central" fill="#111827" transform=${
      turn ? `rotate(${turn} ${x} ${y})` : nothing
    }>${text}</text>`;
  const drawCell = (text, i, j) => {
    const [x, y] = [labels + j * CELL, top + i * CELL];
    const fill = computeColour(getCellColour(value, i, j), value.strengths[i][j]);
    return shapes`<rect x=${x} y=${y} width=${CELL - 1} height=${CELL - 1} fill=${fill}></rect>${
      drawText(text, x + CELL / 2, y + CELL / 2, "middle")
    }`;
  };
  const names = classes.map((name, i) => [
    drawText(name, labels - GAP, top + (i + 0.5) * CELL, "end"),
    drawText(name, labels + (i + 0.5) * CELL, top - GAP, "start", -90),
  ]);
  const side = classes.length * CELL + GAP;
  return makeElement(
    markup`<svg xmlns="http://www.w3.org/2000/svg" width=${labels + side} height=${top + side}
      font-family="system-ui, sans-serif" font-size="13">
    <rect width="100%" height="100%" fill="#fff"></rect>
    ${drawText(`${file}: rows are true classes, columns are predicted classes`, GAP, 2 * GAP, "start")}
    ${names}${texts.map((row, i) => row.map((text, j) => drawCell(text, i, j)))}
  </svg>`,
  );
}
