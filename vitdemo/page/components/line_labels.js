// Labels of the lines of a plot, next to the lines: names at the ends of curves, and stages along dotted lines.
import { shapes } from "../markup.js";

const LETTER = 5.9; // mean width of a letter in pixels
const ROW = 11; // minimum distance of two labels in pixels
const GAP = 5; // pixels between the end of a curve and its label
const MAX_ROOM = 124; // pixels to the right of the plot
const BESIDE = 60; // curves that end within this distance, in pixels, share a column of labels

const computeLabelWidth = (text) => LETTER * text.length;

// The last point of a curve that can be drawn, as [x, y]; null without one.
function findEnd({ x, y }, { isDrawable }) {
  const last = y.findLastIndex(isDrawable);
  return last < 0 ? null : [x[last], y[last]];
}

// Pixels that the labels of `lines` need to the right of a plot.
export function computeLabelRoom(lines, up) {
  const ends = lines.filter(({ label }) => label).map((line) => [line.label, findEnd(line, up)?.[0]]);
  const last = Math.max(...ends.map(([, x]) => x ?? -Infinity));
  const widths = ends.filter(([, x]) => x === last).map(([label]) => computeLabelWidth(label) + GAP);
  return Math.min(Math.max(0, ...widths), MAX_ROOM);
}

// Move positions, which are sorted, at least `ROW` apart within [top, bottom]; null if there is no room.
export function separateLabels(places, [top, bottom]) {
  if ((places.length - 1) * ROW > bottom - top) return null;
  const down = [];
  for (const place of places) down.push(Math.max(place, top, (down.at(-1) ?? -Infinity) + ROW));
  const count = places.length;
  return down.map((place, i) => Math.min(place, bottom - ROW * (count - 1 - i)));
}

const drawLabel = ({ label, colour }, x, y, anchor) =>
  shapes`<text class="end" x=${x.toFixed(1)} y=${(y + 4).toFixed(1)} text-anchor=${anchor}
    style="fill: ${colour}">${label}</text>`;

// The names of the curves. If a column has no room for all labels, the labels of dashed curves are left out first.
export function drawLineLabels(lines, across, up, [top, bottom], width) {
  const columns = [];
  for (const line of lines) {
    const end = line.label ? findEnd(line, up) : null;
    if (!end) continue;
    const [x, y] = [across.place(end[0]), up.place(end[1])];
    const column = columns.find((each) => Math.abs(each[0].x - x) < BESIDE);
    if (column) column.push({ line, x, y });
    else columns.push([{ line, x, y }]);
  }
  return columns.flatMap((column) => {
    const solid = column.filter(({ line }) => !line.dashed);
    const shown = separateLabels(column.map(({ y }) => y), [top, bottom]) ? column : solid;
    shown.sort((a, b) => a.y - b.y);
    const places = separateLabels(shown.map(({ y }) => y), [top, bottom]) ?? [];
    return places.map((y, i) => {
      const { line, x } = shown[i];
      const fits = x + GAP + computeLabelWidth(line.label) <= width;
      return fits
        ? drawLabel(line, x + GAP, y, "start")
        : drawLabel(line, Math.min(x, width) - GAP, y, "end");
    });
  });
}

// The stages of a plot, along their dotted lines; a line near a labelled line has no label.
export function drawMarkLabels(marks, across, bottom) {
  let last = -Infinity;
  const sorted = marks.filter(({ label }) => label).sort((a, b) => a.x - b.x);
  return sorted.map(({ label, x }) => {
    const place = across.place(x) - 3;
    if (place - last < ROW) return null;
    last = place;
    return shapes`<text class="stage" transform="translate(${place.toFixed(1)} ${
      bottom - 5
    }) rotate(-90)">${label}</text>`;
  });
}
