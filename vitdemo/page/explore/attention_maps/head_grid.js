// The grid of all heads: a thumbnail per head, and a thumbnail of another map per layer.
import { makeHeadRows } from "../../components/matrices.js";
import { addRoving, drawValues, findLargest, makeRange } from "../../components/shared.js";
import { markup, nothing, render } from "../../markup.js";
import { fill, ROW, THUMBNAIL_HEAD } from "../../texts.js";
import { getColours, readPatches, SOURCES } from "./selection.js";

const COLUMNS = {
  mean: "mean",
  rollout: "rollout",
  similar: "similar",
  norm: "norm",
};

// Arrange layers in blocks next to each other, with the number of blocks that gives the largest thumbnails.
function arrangeBlocks(layers, columns, [width, height]) {
  const computeSide = (count) => {
    const rows = Math.ceil(layers / count);
    return Math.min(
      (width - 14 * (count - 1) - 22 * count) / (columns * count) - 2,
      (height - 16) / rows - 2,
      110,
    );
  };
  const counts = [1, 2, 3, 4].filter((count) => count <= layers);
  const count = counts.reduce((best, each) => (computeSide(each) > computeSide(best) + 1 ? each : best));
  return { count, side: Math.max(Math.floor(computeSide(count)), 18) };
}

const isHead = (source) => source === "head" || source === "norm-head"; // other sources combine all heads

// Headings above the heads of a block; `over` is the number of columns they span.
function makeHeadHeadings(heads, order, side) {
  if (order !== "own") {
    return [{ text: order === "distance" ? "nearest → farthest" : "focused → spread", over: heads }];
  }
  const first = side > 40 ? "head 1" : "h1";
  return makeRange(heads, (i) => ({ text: i ? i + 1 : first, over: 1 }));
}

// Headings of a block, in one line, or in two lines if they do not fit. `last` is the heading of the last column.
function drawHeadings(ofHeads, last, isInTwoLines) {
  const drawHeading = ({ text, over, className = "" }) =>
    markup`<span class=${className} title=${text} aria-hidden="true" style="grid-column: span ${over}">${text}</span>`;
  const corner = markup`<span></span>`;
  if (!last) return [corner, ...ofHeads.map(drawHeading)];
  if (!isInTwoLines) return [corner, ...[...ofHeads, { text: last, over: 1 }].map(drawHeading)];
  const columns = ofHeads.reduce((sum, { over }) => sum + over, 1);
  const line = { text: last, over: columns, className: "last" };
  const isOne = ofHeads.length === 1; // a single heading spans all heads, and in its own line also the last column
  const others = isOne ? [{ ...ofHeads[0], over: columns }] : [...ofHeads, { text: "", over: 1 }];
  return [corner, drawHeading(line), corner, ...others.map(drawHeading)];
}

function drawThumbnail(trace, { source, layer, head, chip }, choose) {
  const [distance, entropy] = [trace.distances, trace.entropies].map((values) =>
    values[layer - 1][head - 1].toFixed(2)
  );
  const text = isHead(source)
    ? (source === "norm-head"
      ? "Layer {layer}, head {head}: norm-weighted, distance {distance} patches, entropy {entropy} bits"
      : THUMBNAIL_HEAD)
    : "Layer {layer}, {name}";
  const label = fill(text, { layer, head, distance, entropy, name: SOURCES[source] });
  return markup`<button type="button" class=${isHead(source) ? "" : "row"} title=${label} aria-label=${label}
    @click=${() => choose(isHead(source) ? { source, layer, head } : { source, layer })}><canvas width="1"
    height="1"></canvas>${chip === "" ? nothing : markup`<small>${chip}</small>`}</button>`;
}

// The thumbnails in rows. `set` is the source of the heads' maps, and `other` the source of the map in the last column.
function listRows(trace, { order, set, other, isMixed }) {
  const formatChip = ({ layer, head }) => isMixed ? `${layer}·${head}` : order === "own" ? "" : head;
  return makeHeadRows(trace, order, isMixed).map((row, i) => [
    ...row.map((one) => ({ source: set, ...one, chip: formatChip(one) })),
    ...(isMixed ? [] : [{ source: other, layer: i + 1, head: 1, chip: "" }]),
  ]);
}

// Draw the blocks of `rows` in `place`. `room` is [width, height].
function drawBlocks(place, trace, rows, { order, other, isMixed }, room, choose) {
  const columns = rows[0].length;
  const { count, side } = arrangeBlocks(trace.layers, columns, room);
  const each = Math.ceil(trace.layers / count);
  const headings = makeHeadHeadings(trace.heads, order, side);
  const drawRow = (cells, layer) =>
    markup`<span class="side" title=${isMixed ? "" : fill(ROW, { layer })}>${isMixed ? "" : layer}</span>${
      cells.map((cell) => drawThumbnail(trace, cell, choose))
    }`;
  function drawAll(isInTwoLines) {
    const titles = drawHeadings(headings, isMixed ? "" : COLUMNS[other], isInTwoLines);
    const drawBlock = (_, i) =>
      markup`<div class="block" style="grid-template-columns: 20px repeat(${columns}, ${side}px)">${titles}${
        rows.slice(i * each, (i + 1) * each).map((cells, j) => drawRow(cells, i * each + j + 1))
      }</div>`;
    render(makeRange(Math.ceil(trace.layers / each), (i) => drawBlock(null, i)), place);
  }
  drawAll(false);
  const isCut = ({ scrollWidth, clientWidth }) => scrollWidth > clientWidth;
  if ([...place.querySelectorAll(".block > span[title]")].some(isCut)) drawAll(true);
}

// The grid in `place`. A click on a thumbnail calls `choose({source, layer, head})`. `computeRoom()` returns [width, height].
export function createHeadGrid(place, computeRoom, choose) {
  let thumbnails = []; // {button, canvas, layer, source, head}
  let columns = 1;
  let drawn = {}; // the trace and the choices of the last layout
  const setTabStop = addRoving(place, () => thumbnails.map(({ button }) => button), () => columns);

  // The focus remains on the same thumbnail.
  function layOut(trace, selection) {
    const focused = thumbnails.find(({ button }) => button === document.activeElement);
    const rows = listRows(trace, selection);
    columns = rows[0].length;
    drawBlocks(place, trace, rows, selection, computeRoom(), choose);
    const buttons = place.querySelectorAll("button");
    thumbnails = rows.flat().map((cell, i) => ({
      ...cell,
      button: buttons[i],
      canvas: buttons[i].firstElementChild,
    }));
    const isFocused = ({ source, layer, head }) =>
      source === focused.source && layer === focused.layer && head === focused.head;
    if (focused) thumbnails.find(isFocused)?.button.focus({ preventScroll: true });
  }

  // Lay out the grid again if necessary, and mark the thumbnail of the shown map.
  function show(trace, selection, isResized = false) {
    const { set, other, order, isMixed } = selection;
    const layout = [set, other, order, isMixed].join();
    if (isResized || drawn.trace !== trace || drawn.layout !== layout) layOut(trace, selection);
    drawn = { trace, layout };
    let chosen = thumbnails[0]?.button;
    for (const { button, source, layer, head } of thumbnails) {
      const is = source === selection.source && layer === selection.layer &&
        (!isHead(source) || head === selection.head);
      button.setAttribute("aria-pressed", String(is));
      if (is) chosen = button;
    }
    setTabStop(chosen);
  }

  // Draw the maps of the selected token, and return the maximum of the colour scale, or null if each map has its own.
  function draw(trace, selection) {
    const maps = thumbnails.map((each) => readPatches(trace, { ...selection, ...each }));
    const drawnMaps = maps.filter((map, i) => map && thumbnails[i].source === selection.set);
    const top = selection.scale ? Math.max(...drawnMaps.map(findLargest), 0) : null;
    thumbnails.forEach(({ button, canvas, source }, i) => {
      button.classList.toggle("waits", !maps[i]);
      const limit = source === selection.set ? top : null;
      if (maps[i]) {
        drawValues(canvas, maps[i], trace.grid, { top: limit, ...getColours(source, selection.colour) });
      }
    });
    return top;
  }

  return { show, draw, listThumbnails: () => thumbnails };
}

export { COLUMNS as columnNames };
