// The grid of all heads in an attention view: a thumbnail per head, and a thumbnail of another map per layer.
import { markup, nothing, render } from "../markup.js";
import { fill, ROW, THUMBNAIL_HEAD } from "../texts.js";
import { makeHeadRows } from "./matrices.js";
import { addRoving, makeRange } from "./shared.js";

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

const isHead = (of) => of === "head" || of === "norm-head"; // other sources combine all heads

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

function drawThumbnail(look, { of, layer, head, chip }, source, choose) {
  const [distance, entropy] = [look.distances, look.entropies].map((values) =>
    values[layer - 1][head - 1].toFixed(2)
  );
  const text = isHead(of)
    ? (of === "norm-head"
      ? "Layer {layer}, head {head}: norm-weighted, distance {distance} patches, entropy {entropy} bits"
      : THUMBNAIL_HEAD)
    : "Layer {layer}, {source}";
  const label = fill(text, { layer, head, distance, entropy, source });
  return markup`<button type="button" class=${isHead(of) ? "" : "row"} title=${label} aria-label=${label}
    @click=${() => choose(isHead(of) ? { of, layer, head } : { of, layer })}><canvas width="1"
    height="1"></canvas>${chip === "" ? nothing : markup`<small>${chip}</small>`}</button>`;
}

// Draw in `place`. A click on a thumbnail calls `choose({of, layer, head})`. `sources` names other maps.
export function createHeadGrid(place, sources, choose) {
  let thumbnails = []; // {button, canvas, layer, of, head}
  let columns = 1;
  const setTabStop = addRoving(place, () => thumbnails.map(({ button }) => button), () => columns);

  // `room` is [width, height]. `set` is the source of the heads' maps, "head" or "norm-head"; `other`
  // is the source of the map in the last column.
  function draw(look, { order, across, set, other, room }) {
    const sorted = order !== "own";
    const mixed = sorted && across;
    columns = look.heads + (mixed ? 0 : 1);
    const { count, side } = arrangeBlocks(look.layers, columns, room);
    const each = Math.ceil(look.layers / count);
    const rows = makeHeadRows(look, order, mixed).map((row, i) => [
      ...row.map((one) => ({
        of: set,
        ...one,
        chip: mixed ? `${one.layer}·${one.head}` : sorted ? one.head : "",
      })),
      ...(mixed ? [] : [{ of: other, layer: i + 1, head: 1, chip: "" }]),
    ]);
    const drawRow = (cells, layer) =>
      markup`<span class="side" title=${mixed ? "" : fill(ROW, { layer })}>${mixed ? "" : layer}</span>${
        cells.map((cell) => drawThumbnail(look, cell, sources[cell.of], choose))
      }`;
    function drawBlocks(isInTwoLines) {
      const titles = drawHeadings(
        makeHeadHeadings(look.heads, order, side),
        mixed ? "" : COLUMNS[other],
        isInTwoLines,
      );
      const drawBlock = (_, i) =>
        markup`<div class="block" style="grid-template-columns: 20px repeat(${columns}, ${side}px)">${titles}${
          rows.slice(i * each, (i + 1) * each).map((cells, j) => drawRow(cells, i * each + j + 1))
        }</div>`;
      render(Array.from({ length: Math.ceil(look.layers / each) }, drawBlock), place);
    }
    drawBlocks(false);
    const isCut = ({ scrollWidth, clientWidth }) => scrollWidth > clientWidth;
    if ([...place.querySelectorAll(".block > span[title]")].some(isCut)) drawBlocks(true);
    const buttons = place.querySelectorAll("button");
    thumbnails = rows.flat().map((cell, i) => ({
      ...cell,
      button: buttons[i],
      canvas: buttons[i].firstElementChild,
    }));
  }

  function press({ of, layer, head }) {
    let chosen = thumbnails[0]?.button;
    for (const each of thumbnails) {
      const is = each.of === of && each.layer === layer && (!isHead(of) || each.head === head);
      each.button.setAttribute("aria-pressed", String(is));
      if (is) chosen = each.button;
    }
    setTabStop(chosen);
  }

  return { draw, press, listThumbnails: () => thumbnails };
}

export { COLUMNS as columnNames };
