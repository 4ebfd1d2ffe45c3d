// Figures for slides, of the large map and of the grid of all heads: see map_files.js.
import { columnNames } from "../../components/head_rows.js";
import { formatPercent } from "../../components/shared.js";
import { fill, ROW, SOURCE_HEAD } from "../../texts.js";

const [LARGE, SIDE, GAP, HEADING, LEFT, APART] = [640, 88, 4, 18, 56, 18]; // units of the figure
const WIDE = 1.6; // width over height of the grid, about that of a slide

const getOpacity = (canvas) => Number(getComputedStyle(canvas).opacity);

// `kind` names a colour scale that is not linear.
const listNotes = ({ run, grid: [rows, columns] }, kind) =>
  [`Model ${run}, ${rows} × ${columns} patches`, kind].filter(Boolean);

// `from` and `to` are the labels of the colours.
export function makeMapFigure(look, { title, image, canvas, from, to, signed, kind }) {
  const cells = [{ canvas, x: 0, y: 0, width: LARGE, height: LARGE }];
  return {
    title,
    notes: listNotes(look, kind),
    width: LARGE,
    height: LARGE,
    image,
    cells,
    scale: { from, to, signed },
    opacity: getOpacity(canvas),
  };
}

// Number of blocks of layers next to each other whose figure is closest to a slide's shape.
function countBlocks(rows, width, rowHeight) {
  const computeMisfit = (count) =>
    Math.abs(Math.log((count * width) / (Math.ceil(rows / count) * rowHeight) / WIDE));
  const counts = [1, 2, 3, 4].filter((count) => count <= rows);
  return counts.reduce((best, each) => computeMisfit(each) < computeMisfit(best) ? each : best);
}

// `thumbnails` are in reading order; without `isSorted`, a row contains the heads of one layer by index. `top` is the
// maximum of a common colour scale, or null. `set` is "head" or "norm-head".
export function makeHeadsFigure(
  look,
  { thumbnails, columns, isSorted, token, incoming, set, top, image, kind },
) {
  const rows = Math.ceil(thumbnails.length / columns);
  const rowHeight = SIDE + GAP + (isSorted ? HEADING : 0);
  const side = isSorted ? 0 : LEFT; // room for the layers' names
  const blockWidth = side + columns * (SIDE + GAP);
  const count = countBlocks(rows, blockWidth + APART, rowHeight);
  const each = Math.ceil(rows / count);
  const [cells, labels] = [[], []];
  for (const [i, { button, canvas, layer, head, of }] of thumbnails.entries()) {
    const [row, column] = [Math.floor(i / columns), i % columns];
    const left = Math.floor(row / each) * (blockWidth + APART) + side;
    const y = HEADING + (row % each) * rowHeight;
    const x = left + column * (SIDE + GAP);
    const isHead = of === set;
    const name = isHead ? fill(SOURCE_HEAD, { head }) : columnNames[of];
    if (!button.classList.contains("waits")) cells.push({ canvas, x, y, width: SIDE, height: SIDE });
    if (isSorted && isHead) {
      labels.push({
        text: `layer ${layer}, head ${head}`,
        x: x + SIDE / 2,
        y: y - HEADING / 2,
        size: 10,
      });
    } else if (row % each === 0) labels.push({ text: name, x: x + SIDE / 2, y: y - HEADING / 2 });
    if (!isSorted && column === 0) {
      labels.push({ text: fill(ROW, { layer }), x: left - side / 2, y: y + SIDE / 2 });
    }
  }
  const title = set === "norm-head"
    ? "All heads: norm-weighted attention, {token}"
    : incoming
    ? "All heads: attention to {token}"
    : "All heads: attention of {token}";
  return {
    title: fill(title, { token: token.name }),
    notes: listNotes(look, kind),
    width: count * (blockWidth + APART) - APART,
    height: HEADING + each * rowHeight - GAP,
    cells,
    labels,
    image,
    scale: { from: "0", to: top === null ? "maximum of each map" : formatPercent(top), signed: false },
    opacity: getOpacity(thumbnails[0].canvas),
  };
}
