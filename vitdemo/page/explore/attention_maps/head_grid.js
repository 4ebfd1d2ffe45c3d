// The grid of all heads: a map per head. The grid is one control: arrow keys choose another map.
import { makeHeadRows } from "../../components/matrices.js";
import { ARROW_MOVES, drawValues, findLargest, makeRange, moveInGrid } from "../../components/shared.js";
import { markup, nothing, render } from "../../markup.js";
import { fill, ROW, THUMBNAIL_HEAD } from "../../texts.js";
import { getColours, isOfHead, readPatches } from "./selection.js";

const NORM_HEAD =
  "Layer {layer}, head {head}: norm-weighted, distance {distance} patches, entropy {entropy} bits";

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

// Headings above the heads of a block; `over` is the number of columns they span.
function makeHeadHeadings(heads, order, side) {
  if (order !== "own") {
    return [{ text: order === "distance" ? "nearest → farthest" : "focused → spread", over: heads }];
  }
  const first = side > 40 ? "head 1" : "h1";
  return makeRange(heads, (i) => ({ text: i ? i + 1 : first, over: 1 }));
}

const drawHeading = ({ text, over }) =>
  markup`<span title=${text} aria-hidden="true" style="grid-column: span ${over}">${text}</span>`;

// A sorted grid names the head and its measurement.
function drawChips(trace, { layer, head }, { order, isMixed }) {
  if (order === "own") return nothing;
  const values = order === "distance" ? trace.distances : trace.entropies;
  return markup`<small>${isMixed ? `${layer}·${head}` : head}</small><small class="measure">${
    values[layer - 1][head - 1].toFixed(1)
  }</small>`;
}

function drawThumbnail(trace, one, selection) {
  const { layer, head } = one;
  const [distance, entropy] = [trace.distances, trace.entropies].map((values) =>
    values[layer - 1][head - 1].toFixed(2)
  );
  const label = fill(selection.set === "norm-head" ? NORM_HEAD : THUMBNAIL_HEAD, {
    layer,
    head,
    distance,
    entropy,
  });
  return markup`<div class="cell" role="gridcell" id="head-${layer}-${head}" title=${label}
    aria-label=${label}><canvas width="1" height="1"></canvas>${drawChips(trace, one, selection)}</div>`;
}

// Draw the blocks of `rows` in `place`. `room` is [width, height].
function drawBlocks(place, trace, rows, selection, room) {
  const { order, isMixed } = selection;
  const columns = rows[0].length;
  const { count, side } = arrangeBlocks(trace.layers, columns, room);
  const each = Math.ceil(rows.length / count);
  const headings = makeHeadHeadings(trace.heads, order, side);
  const drawRow = (cells, layer) =>
    markup`<div role="row"><span class="side" aria-hidden="true" title=${
      isMixed ? "" : fill(ROW, { layer })
    }>${isMixed ? "" : layer}</span>${cells.map((one) => drawThumbnail(trace, one, selection))}</div>`;
  const drawBlock = (i) =>
    markup`<div class="block" role="rowgroup" style="grid-template-columns: 20px repeat(${columns}, ${side}px)">
      <span aria-hidden="true"></span>${headings.map(drawHeading)}${
      rows.slice(i * each, (i + 1) * each).map((cells, j) => drawRow(cells, i * each + j + 1))
    }</div>`;
  render(makeRange(Math.ceil(rows.length / each), drawBlock), place);
}

// The grid in `place`. A choice calls `choose({source, layer, head})`. `computeRoom()` returns [width, height].
export function createHeadGrid(place, computeRoom, choose) {
  let thumbnails = []; // {cell, canvas, layer, head}
  let columns = 1;
  let drawn = {}; // the trace, the selection and the layout that were drawn last

  const chooseNumber = (i) => {
    const { layer, head } = thumbnails[i];
    choose({ source: drawn.selection.set, layer, head });
  };
  place.addEventListener("click", ({ target }) => {
    const i = thumbnails.findIndex(({ cell }) => cell === target.closest(".cell"));
    if (i >= 0) chooseNumber(i);
  });
  place.addEventListener("keydown", (event) => {
    const move = ARROW_MOVES[event.key];
    if (!move || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const { layer, head } = drawn.selection;
    const i = Math.max(thumbnails.findIndex((each) => each.layer === layer && each.head === head), 0);
    // A click, so that a lesson notices the choice.
    thumbnails[moveInGrid(move, i, [thumbnails.length / columns, columns])].cell.click();
  });

  function layOut(trace, selection) {
    const rows = makeHeadRows(trace, selection.order, selection.isMixed);
    columns = rows[0].length;
    drawBlocks(place, trace, rows, selection, computeRoom());
    const cells = place.querySelectorAll(".cell");
    thumbnails = rows.flat().map((one, i) => ({
      ...one,
      cell: cells[i],
      canvas: cells[i].firstElementChild,
    }));
  }

  // Lay out the grid again if necessary, and mark the map that is shown.
  function show(trace, selection, isResized = false) {
    const { set, order, isMixed } = selection;
    const layout = [set, order, isMixed].join();
    if (isResized || drawn.trace !== trace || drawn.layout !== layout) layOut(trace, selection);
    drawn = { trace, layout, selection };
    place.removeAttribute("aria-activedescendant");
    for (const { cell, layer, head } of thumbnails) {
      const is = isOfHead(selection.source) && layer === selection.layer && head === selection.head;
      cell.setAttribute("aria-selected", String(is));
      cell.classList.toggle("of-layer", layer === selection.layer);
      if (is) place.setAttribute("aria-activedescendant", cell.id);
    }
  }

  // Draw the maps of the selected token, and return the maximum of the colour scale, or null if each map has its own.
  function draw(trace, selection) {
    const maps = thumbnails.map(({ layer, head }) =>
      readPatches(trace, { ...selection, source: selection.set, layer, head })
    );
    const top = selection.scale ? Math.max(...maps.filter(Boolean).map(findLargest), 0) : null;
    thumbnails.forEach(({ cell, canvas }, i) => {
      cell.classList.toggle("waits", !maps[i]);
      if (maps[i]) {
        drawValues(canvas, maps[i], trace.grid, { top, ...getColours(selection.set, selection.colour) });
      }
    });
    return top;
  }

  return { show, draw, listThumbnails: () => thumbnails };
}
