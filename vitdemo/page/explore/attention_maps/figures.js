// Figures for slides, of the large map and of the grid of all heads: see map_files.js.
import { formatPercent } from "../../components/shared.js";
import { fill, ROW, SOURCE_HEAD } from "../../texts.js";
import { columnNames } from "./head_grid.js";

const [LARGE, SIDE, GAP, HEADING, LEFT, APART] = [640, 88, 4, 18, 56, 18]; // units of the figure
const WIDE = 1.6; // width over height of the grid, about that of a slide

const getOpacity = (canvas) => Number(getComputedStyle(canvas).opacity);

// `kind` names a colour scale that is not linear.
const listNotes = ({ run, grid: [rows, columns] }, kind) =>
  [`Model ${run}, ${rows} × ${columns} patches`, kind].filter(Boolean);

// `from` and `to` are the labels of the colours.
export function makeMapFigure(trace, { title, image, canvas, from, to, signed, kind }) {
  const cells = [{ canvas, x: 0, y: 0, width: LARGE, height: LARGE }];
  return {
    title,
    notes: listNotes(trace, kind),
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

// The names of layers and heads next to the thumbnail number `i` of a grid.
function makeLabels({ source, layer, head }, i, { columns, isSorted, set, isTop }, { left, x, y, side }) {
  const [column, isHead] = [i % columns, source === set];
  const name = isHead ? fill(SOURCE_HEAD, { head }) : columnNames[source];
  const above = { x: x + SIDE / 2, y: y - HEADING / 2 };
  const labels = [];
  if (isSorted && isHead) labels.push({ text: `layer ${layer}, head ${head}`, ...above, size: 10 });
  else if (isTop) labels.push({ text: name, ...above });
  if (!isSorted && column === 0) {
    labels.push({ text: fill(ROW, { layer }), x: left - side / 2, y: y + SIDE / 2 });
  }
  return labels;
}

// The maps and their labels. Without `isSorted`, a row contains the heads of one layer by index.
function arrangeThumbnails(thumbnails, columns, isSorted, set) {
  const rows = Math.ceil(thumbnails.length / columns);
  const rowHeight = SIDE + GAP + (isSorted ? HEADING : 0);
  const side = isSorted ? 0 : LEFT; // room for the layers' names
  const blockWidth = side + columns * (SIDE + GAP);
  const count = countBlocks(rows, blockWidth + APART, rowHeight);
  const each = Math.ceil(rows / count);
  const [cells, labels] = [[], []];
  for (const [i, thumbnail] of thumbnails.entries()) {
    const [row, column] = [Math.floor(i / columns), i % columns];
    const left = Math.floor(row / each) * (blockWidth + APART) + side;
    const place = { left, side, x: left + column * (SIDE + GAP), y: HEADING + (row % each) * rowHeight };
    const { button, canvas } = thumbnail;
    if (!button.classList.contains("waits")) {
      cells.push({ canvas, x: place.x, y: place.y, width: SIDE, height: SIDE });
    }
    const isTop = row % each === 0;
    labels.push(...makeLabels(thumbnail, i, { columns, isSorted, set, isTop }, place));
  }
  const size = { width: count * (blockWidth + APART) - APART, height: HEADING + each * rowHeight - GAP };
  return { cells, labels, ...size };
}

// `thumbnails` are in reading order, and `top` is the maximum of a common colour scale, or null.
export function makeHeadsFigure(trace, { thumbnails, selection, top, image, kind }) {
  const { order, isMixed, token, isIncoming, set } = selection;
  const title = set === "norm-head"
    ? "All heads: norm-weighted attention, {token}"
    : isIncoming
    ? "All heads: attention to {token}"
    : "All heads: attention of {token}";
  return {
    title: fill(title, { token: token.name }),
    notes: listNotes(trace, kind),
    ...arrangeThumbnails(thumbnails, trace.heads + (isMixed ? 0 : 1), order !== "own", set),
    image,
    scale: { from: "0", to: top === null ? "maximum of each map" : formatPercent(top), signed: false },
    opacity: getOpacity(thumbnails[0].canvas),
  };
}
