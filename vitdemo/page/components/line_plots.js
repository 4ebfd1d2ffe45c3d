// Line plots over epochs, minutes or steps, under one legend. Pointing at a plot, tapping it, or moving the slider
// shows the values at that position. The value has these fields; optional fields are missing or null:
//
//   { legend: [{ name, colour, lighter or null, sign }, ...],
//     note: text, problems: [text, ...],
//     x: unit of the reading slider, such as "epoch"; null: no slider,
//     plots: [{ title, label, sentence, unit, x: axis label, steps: [text, ...],
//               shape: "large" or "wide" (of a group in a wide window), whole: only integer ticks, log, zero: draw a line at 0,
//               range: [low, high], span: [low, high] of the x-axis, decimals: integer or null (4 significant digits), signed,
//               lines: [line, ...], marks: [{ x, colour, label }, ...],
//               table: { head: [text, ...], rows: [[text, ...], ...] }, note: text }, ...],
//     csv: { name: file name, rows: [[...], ...] } }
//
// A line is { run, name, label: text at its end, x: [...], y: [...], colour, dashed, faint, sign, points: draw a dot at every
// point, read: include it in the readings, epochs: [...] or null }.
import { makeElement, markup, nothing, render, shapes } from "../markup.js";
import { setExports } from "./exports.js";
import { computeLabelRoom, drawLineLabels, drawMarkLabels } from "./line_labels.js";
import { drawNotice, formatCsv, saveText } from "./shared.js";
import { drawTable } from "./table.js";

const [LEFT, TOP] = [54, 8];
const SIZE = [480, 240];
const SMALL = [340, 220]; // on a phone, whose labels would be too small otherwise
// Sizes of plots. In a wide window, the large plot is above the others; in a very wide window, it is to their left
const SHAPES = {
  wide: { large: [960, 540], wide: [480, 190] },
  "very wide": { large: [620, 422], wide: [620, 179] },
};
// Maximum width of a narrow window, and minimum widths of a wide and a very wide window, in pixels
const [NARROW, WIDE, VERY_WIDE] = [480, 900, 1300];
const getWidthClass = (pixels) =>
  pixels >= VERY_WIDE ? "very wide" : pixels >= WIDE ? "wide" : pixels > NARROW ? "" : "narrow";
const MARKED = 10; // maximum number of points per curve with the run's marker
const DOTS = 60; // curves with more points have no dots

const isKnown = (value) => Number.isFinite(value);
const formatShort = (value) => String(Number(value.toPrecision(4)));

// Tick values within [low, high]: about six round numbers, or powers of ten.
function computeTicks(low, high, { log, whole }) {
  if (log) {
    const found = [1, 2, 5].flatMap((digit) => [...Array(40).keys()].map((i) => digit * 10 ** (i - 20)));
    const within = found.filter((value) => value >= low && value <= high).sort((a, b) => a - b);
    const powers = within.filter((value) => Number.isInteger(Math.round(1e6 * Math.log10(value)) / 1e6));
    return powers.length > 2 ? powers : within;
  }
  const rough = (high - low) / 6;
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 2.5, 5, 10].map((digit) => digit * power).find((size) => size >= rough);
  if (whole) step = Math.max(1, Math.round(step));
  const first = Math.ceil(low / step - 1e-9);
  return [...Array(Math.floor(high / step + 1e-9) - first + 1).keys()].map((i) =>
    Number(((first + i) * step).toPrecision(12))
  );
}

// Smooth values with an exponential moving average. Dividing by the sum of the weights avoids a bias of the first
// values towards zero (Kingma & Ba 2015, section 3). Missing values stay missing.
export function smoothCurve(values, weight) {
  let [sum, total] = [0, 0];
  return values.map((value) => {
    [sum, total] = [weight * sum, weight * total];
    if (!isKnown(value)) return value;
    [sum, total] = [sum + value, total + 1];
    return sum / total;
  });
}

// Mapping from values to positions between `from` and `to`, with its ticks.
export function makeScale(values, [from, to], options = {}) {
  const log = options.log && values.some((value) => value > 0);
  const transform = log ? Math.log10 : (value) => value;
  const used = values.filter((value) => isKnown(value) && (!log || value > 0)).map(transform);
  let [low, high] = options.range ?? [Math.min(...used), Math.max(...used)];
  if (!used.length) [low, high] = [0, 1];
  const room = high > low ? 0.04 * (high - low) : 0.5 * (Math.abs(low) || 1);
  [low, high] = [low - room, high + room];
  const place = (value) => from + ((transform(value) - low) / (high - low)) * (to - from);
  const ends = log ? [10 ** low, 10 ** high] : [low, high];
  return {
    place,
    ticks: computeTicks(...ends, { ...options, log }),
    isDrawable: (value) => isKnown(value) && (!log || value > 0),
  };
}

function drawLine({ x, y, colour, dashed, faint, sign, points }, across, up, number) {
  let path = "";
  let pen = "M";
  const dots = [];
  x.forEach((at, i) => {
    if (!up.isDrawable(y[i])) return (pen = "M");
    const [left, top] = [across.place(at).toFixed(1), up.place(y[i]).toFixed(1)];
    path += `${pen}${left} ${top}`;
    pen = "L";
    const every = Math.max(1, Math.ceil(x.length / MARKED));
    if (sign && !faint && (points || i % every === 0)) {
      dots.push(
        shapes`<text x=${left} y=${top} text-anchor="middle" dominant-baseline="central"
          style="fill: ${colour}; font-size: 9px">${sign}</text>`,
      );
    } else if (!faint && (points || x.length < DOTS)) {
      dots.push(shapes`<circle cx=${left} cy=${top} r=${points ? 3 : 1.7} fill=${colour}></circle>`);
    }
  });
  return shapes`<g id="curve-${number}" opacity=${faint ? 0.4 : 1}>
    <path d=${path || "M0 0"} fill="none" stroke=${colour} stroke-width=${faint ? 1 : 1.9}
      stroke-dasharray=${dashed ? "6 3" : nothing}></path>${dots}</g>`;
}

function drawAxes(plot, { height, right, bottom }, across, up) {
  const drawText = (words, x, y, anchor = "middle") =>
    shapes`<text x=${x} y=${y} text-anchor=${anchor}>${words}</text>`;
  const names = plot.steps
    ? plot.steps.map((words, i) => [i, words])
    : across.ticks.map((value) => [value, formatShort(value)]);
  const drawRule = (x1, x2, y1, y2, opacity) =>
    shapes`<line x1=${x1} x2=${x2} y1=${y1} y2=${y2} stroke="currentColor" stroke-opacity=${opacity}></line>`;
  return [
    ...up.ticks.flatMap((value) => {
      const y = up.place(value);
      return [drawRule(LEFT, right, y, y, 0.15), drawText(formatShort(value), LEFT - 5, y + 4, "end")];
    }),
    ...names.flatMap(([value, words]) => {
      const x = across.place(value);
      return [drawRule(x, x, TOP, bottom, 0.15), drawText(words, x, bottom + 14)];
    }),
    drawRule(LEFT, LEFT, TOP, bottom, 0.8),
    drawRule(LEFT, right, bottom, bottom, 0.8),
    drawText(plot.x, (LEFT + right) / 2, height - 4),
    shapes`<g transform="translate(12 ${(TOP + bottom) / 2}) rotate(-90)">${drawText(plot.unit, 0, 0)}</g>`,
  ];
}

// Readings of a plot, sorted by x: [[x, text], ...].
function describeReadings(plot, x) {
  const formatValue = (value) => {
    if (!isKnown(value)) return "–";
    const text = plot.decimals === null ? formatShort(value) : value.toFixed(plot.decimals);
    return plot.signed && value >= 0 ? `+${text}` : text;
  };
  const said = new Map();
  const read = plot.lines.filter((one) => one.read);
  for (const run of new Set(read.map((one) => one.run))) {
    const own = read.filter((one) => one.run === run);
    own[0].x.forEach((at, i) => {
      const numbers = own.map(({ name, y }) => (own.length > 1 ? `${name} ` : "") + formatValue(y[i])).join(
        ", ",
      );
      const name = own[0].epochs ? `${run} (epoch ${own[0].epochs[i]})` : run;
      said.set(at, [
        ...(said.get(at) ?? [`${x} ${formatShort(at)}`]),
        `${name}: ${numbers}${plot.unit === "%" ? "" : " "}${plot.unit}`,
      ]);
    });
  }
  return [...said].sort(([a], [b]) => a - b).map(([at, words]) => [at, words.join("\n")]);
}

function drawStrips(found, { right, bottom }, across, choose) {
  const middles = found.map(([at]) => across.place(at));
  const edges = [LEFT, ...middles.slice(1).map((place, i) => (place + middles[i]) / 2), right];
  return found.map(([, words], i) => {
    const [at] = found[i];
    return shapes`<rect class="strip" data-x=${at} x=${edges[i]} width=${
      Math.max(edges[i + 1] - edges[i], 0)
    } y=${TOP}
      height=${bottom - TOP} @click=${() => choose(at)}><title>${words}</title></rect>`;
  });
}

function computeFrame({ shape }, windowClass) {
  const [width, height] = SHAPES[windowClass]?.[shape] ?? (windowClass === "narrow" ? SMALL : SIZE);
  return { width, height, right: width - 8, bottom: height - 36 };
}

function drawFigure(plot, x, found, choose, windowClass) {
  const frame = computeFrame(plot, windowClass);
  const { width, height, bottom } = frame;
  const listValues = (name) => plot.lines.flatMap((one) => one[name]);
  const up = makeScale([...listValues("y"), ...(plot.zero ? [0] : [])], [bottom, TOP], {
    log: plot.log,
    range: plot.range,
  });
  const isNarrow = windowClass === "narrow";
  const right = frame.right -= isNarrow ? 0 : computeLabelRoom(plot.lines, up);
  const across = makeScale(plot.steps ? plot.steps.map((_, i) => i) : listValues("x"), [LEFT, right], {
    whole: plot.whole,
    range: plot.span,
  });
  const drawRule = (y) =>
    shapes`<line x1=${LEFT} x2=${right} y1=${y} y2=${y} stroke="currentColor" stroke-opacity="0.6"></line>`;
  const drawMark = ({ x: at, colour }, i) =>
    shapes`<line id="mark-${i}" x1=${across.place(at)} x2=${
      across.place(at)
    } y1=${TOP} y2=${bottom} stroke=${colour}
      stroke-width="1.5" stroke-dasharray="1.5 3"></line>`;
  const picture = markup`<svg viewBox="0 0 ${width} ${height}" aria-hidden="true">
    ${drawAxes(plot, frame, across, up)}${plot.zero ? drawRule(up.place(0)) : nothing}${
    (plot.marks ?? []).map(drawMark)
  }
    ${plot.lines.map((one, i) => drawLine(one, across, up, i))}
    ${isNarrow ? nothing : drawMarkLabels(plot.marks ?? [], across, bottom)}
    ${drawLineLabels(plot.lines, across, up, [TOP + 4, bottom - 4], width - 2)}${
    drawStrips(found, frame, across, choose)
  }
  </svg>`;
  const drawValueTable = () => drawTable({ columns: plot.table.head, rows: plot.table.rows });
  return markup`<figure aria-label=${plot.label} class=${plot.shape ?? nothing}>
    <figcaption>${plot.title}</figcaption>
    ${plot.sentence ? markup`<p class="sentence">${plot.sentence}</p>` : nothing}
    ${picture}${x ? makeElement(markup`<p class="said" role="status"></p>`) : nothing}
    ${plot.table ? drawValueTable() : nothing}
    ${plot.note ? markup`<p class="note">${plot.note}</p>` : nothing}
  </figure>`;
}

// The reading nearest to `at`, if the curves extend to `at`. Plots may have different x positions.
function findNearest(all, at) {
  const computeDistance = (strip) => Math.abs(strip.dataset.x - at);
  const reaches = all.length && all[0].dataset.x <= at && at <= all.at(-1).dataset.x;
  return reaches
    ? all.reduce((best, strip) => (computeDistance(strip) < computeDistance(best) ? strip : best))
    : null;
}

// A piece of a curve, for a legend.
export const drawStroke = (kind, colour) => markup`<i class=${kind} style="color: ${colour}"></i>`;

function drawEntry({ name, colour, lighter, sign }) {
  const second = lighter ? [drawStroke("dashed", lighter), "training"] : [];
  const mark = sign ? markup`<b style="color: ${colour}">${sign}</b>` : nothing;
  const said = lighter === undefined ? [] : ["validation", ...second];
  return markup`<span><strong>${name}</strong>${drawStroke("", colour)}${mark}${said}</span>`;
}

const readerMarkup = markup`<label class="reader"><span></span> <input type="range" min="0"></label>`;

// Return a function `draw` that draws a payload in `root`. `draw.showValuesAt(x)` shows the values near a position, or none
// for "". The user's choice of a position calls `listen(x)`. Without a slider, only the plots are clicked.
export function createLinePlots(root, { listen = () => {}, hasSlider = true } = {}) {
  root.classList.add("curves");
  render(
    markup`<div class="problem"></div><div class="legend"></div><p class="note"></p><div class="plots"></div>${
      hasSlider ? readerMarkup : nothing
    }`,
    root,
  );
  const [problem, legend, note, plots] = [...root.children].filter((each) => each.tagName !== "LABEL");
  const slider = hasSlider ? root.querySelector(".reader") : makeElement(readerMarkup);
  const [title, reader] = slider.children;
  let drawn = {}; // the drawn payload
  let places = []; // sorted x positions at which any plot has a reading
  let reading = ""; // the shown position
  let windowClass = "";

  function showValues(at) {
    reading = at;
    for (const one of root.querySelectorAll("figure")) {
      const all = [...one.querySelectorAll(".strip")];
      const chosen = at === "" ? null : findNearest(all, at);
      for (const strip of all) strip.classList.toggle("at", strip === chosen);
      one.querySelector(".said").textContent = chosen?.textContent ?? "";
    }
    reader.value = at === "" ? places.length - 1 : places.indexOf(at);
    if (at === "") reader.removeAttribute("aria-valuetext");
    else reader.setAttribute("aria-valuetext", `${drawn.x} ${formatShort(at)}`);
  }

  function choose(at) {
    showValues(at);
    listen(at);
  }

  function showValuesAt(x) {
    if (!drawn.x) return;
    const place = x === "" || !places.length
      ? ""
      : places.reduce((best, at) => (Math.abs(at - x) < Math.abs(best - x) ? at : best));
    if (place !== reading) showValues(place);
  }

  function draw(value) {
    const before = drawn.x === value?.x ? reading : "";
    drawn = value || {};
    const { x } = drawn;
    windowClass = getWidthClass(root.clientWidth);
    root.dataset.width = windowClass;
    const all = drawn.plots ?? [];
    render((drawn.problems ?? []).map(drawNotice), problem);
    render((drawn.legend ?? []).map(drawEntry), legend);
    note.textContent = drawn.note ?? "";
    note.hidden = !drawn.note;
    const found = all.map((plot) => (x ? describeReadings(plot, x) : []));
    places = [...new Set(found.flat().map(([at]) => at))].sort((a, b) => a - b);
    render(all.map((plot, i) => drawFigure(plot, x, found[i], choose, windowClass)), plots);
    slider.hidden = !hasSlider || !x || !all.length;
    title.textContent = `Show values at ${x ?? ""}`;
    reader.max = Math.max(0, places.length - 1);
    if (x) showValues(places.includes(before) ? before : "");
  }

  reader.addEventListener("input", () => choose(places[Number(reader.value)]));
  const save = () => saveText(formatCsv(drawn.csv.rows), drawn.csv.name, "text/csv");
  setExports(root, () => drawn.csv && { name: "Values of all plots", formats: { CSV: save } });
  draw(null);
  new ResizeObserver(() => {
    if (root.clientWidth && getWidthClass(root.clientWidth) !== windowClass) draw(drawn);
  }).observe(root);
  return Object.assign(draw, { showValuesAt });
}
