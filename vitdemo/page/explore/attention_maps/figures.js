// Figures for slides, of the large map and of the grid of all heads: see map_files.js.
import { formatPercent } from "../../components/shared.js";
import { fill, ROW, SOURCE_HEAD } from "../../texts.js";

const [LARGE, SIDE, GAP, HEADING, LEFT, APART] = [640, 88, 4, 18, 56, 18]; // units of the figure
const NARROWEST = 400; // so that the title fits
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

// The large map below the path: the maps of all layers in a row, with the probability after each layer. `map` is the title of
// the large map, and `layers` are the canvases of the path.
export function makePathFigure(trace, { title, map, image, canvas, layers, from, to, signed }) {
  const step = LARGE / layers.length;
  const side = Math.min(step - GAP, SIDE);
  const shares = trace.prediction?.shares;
  const path = [...layers].map((each, i) => ({
    canvas: each,
    x: i * step + (step - side) / 2,
    y: 0,
    width: side,
    height: side,
  }));
  const labels = path.map(({ x }, i) => ({
    text: shares ? `${Math.round(100 * shares[i + 1])}%` : i + 1,
    x: x + side / 2,
    y: side + HEADING / 2,
  }));
  const top = side + HEADING + GAP;
  return {
    title,
    notes: [map, ...listNotes(trace), "Made with vitdemo"],
    width: LARGE,
    height: top + LARGE,
    image,
    cells: [...path, { canvas, x: 0, y: top, width: LARGE, height: LARGE }],
    labels,
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
function makeLabels({ layer, head }, i, { columns, isSorted, isTop }, { left, x, y, side }) {
  const above = { x: x + SIDE / 2, y: y - HEADING / 2 };
  if (isSorted) return [{ text: `layer ${layer}, head ${head}`, ...above, size: 10 }];
  return [
    ...(isTop ? [{ text: fill(SOURCE_HEAD, { head }), ...above }] : []),
    ...(i % columns ? [] : [{ text: fill(ROW, { layer }), x: left - side / 2, y: y + SIDE / 2 }]),
  ];
}

// The maps and their labels. Without `isSorted`, a row contains the heads of one layer by index.
function arrangeThumbnails(thumbnails, columns, isSorted) {
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
    const { cell, canvas } = thumbnail;
    if (!cell.classList.contains("waits")) {
      cells.push({ canvas, x: place.x, y: place.y, width: SIDE, height: SIDE });
    }
    const isTop = row % each === 0;
    labels.push(...makeLabels(thumbnail, i, { columns, isSorted, isTop }, place));
  }
  const width = Math.max(count * (blockWidth + APART) - APART, NARROWEST);
  const size = { width, height: HEADING + each * rowHeight - GAP };
  return { cells, labels, ...size };
}

// `thumbnails` are in reading order, and `top` is the maximum of a common colour scale, or null.
export function makeHeadsFigure(trace, { thumbnails, selection, top, image, kind }) {
  const { order, token, isIncoming, set } = selection;
  const title = set === "norm-head"
    ? "All heads: norm-weighted attention, {token}"
    : isIncoming
    ? "All heads: attention to {token}"
    : "All heads: attention of {token}";
  return {
    title: fill(title, { token: token.name }),
    notes: listNotes(trace, kind),
    ...arrangeThumbnails(thumbnails, trace.heads, order !== "own"),
    image,
    scale: { from: "0", to: top === null ? "maximum of each map" : formatPercent(top), signed: false },
    opacity: getOpacity(thumbnails[0].canvas),
  };
}
