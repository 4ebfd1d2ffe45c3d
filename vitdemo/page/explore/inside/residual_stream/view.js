// Contributions of each part of the model to a logit, or to the difference of two logits: a waterfall in the order of
// the model, single heads, and the norm of the tokens after each layer.
import {
  drawAbout,
  drawCaption,
  drawFoldedTable,
  drawGrid,
  drawScale,
  formatSigned,
} from "../../../components/grid.js";
import { findLargest, getColour } from "../../../components/shared.js";
import { makeElement, markup, nothing, render as renderInto } from "../../../markup.js";
import * as store from "../../../store.js";
import { fill } from "../../../texts.js";

const NONE = "none";

const formatColour = (value) => `rgb(${getColour(value > 0 ? 0.84 : 0.16).join(" ")})`;
const isPart = ({ whole }) => !whole;

// The parts as bars from the sum before to the sum after each part. The last bar is the total. Below the bars is a
// sentence about the largest part, or about the part under the pointer or chosen with the arrow keys.
function drawWaterfall(rows, name) {
  let sum = 0;
  const bars = rows.map((row) => ({
    ...row,
    from: row.whole ? 0 : sum,
    to: row.whole ? row.value : (sum += row.value),
  }));
  const ends = bars.flatMap(({ from, to }) => [from, to]);
  const [low, high] = [Math.min(0, ...ends), Math.max(0, ...ends)];
  const computePlace = (value) => (100 * (high - value)) / (high - low || 1); // percent from the top
  const reading = makeElement(markup`<p class="reading" role="status"></p>`);
  const columns = bars.map(({ from, to, value, whole, short, kind }) => {
    const [top, height] = [computePlace(Math.max(from, to)), Math.abs(computePlace(from) - computePlace(to))];
    const style = `top: ${top}%; height: ${height}%; ${whole ? "" : `--colour: ${formatColour(value)}`}`;
    const line = markup`<s style="top: ${computePlace(to)}%"></s>`; // to the next bar
    return makeElement(
      markup`<div class="column ${kind}"><i style=${style}></i>${
        whole ? nothing : line
      }<small>${short}</small></div>`,
    );
  });
  const drawn = makeElement(
    markup`<div class="parts" role="img" tabindex="0" aria-label="Waterfall chart of the contributions to ${name}. The arrow keys choose a part."
      style="--count: ${columns.length}"><u style="top: ${computePlace(0)}%"></u>${columns}</div>`,
  );

  const parts = bars.filter(isPart);
  const start = parts.reduce(
    (best, { value }, i) => (Math.abs(value) > Math.abs(parts[best].value) ? i : best),
    0,
  );
  let current = start;
  function showReading(i) {
    current = i;
    columns.forEach((each, at) => each.classList.toggle("at", at === i));
    const { name: title, value, to, whole } = bars[i];
    reading.textContent = fill(
      whole
        ? "Sum of all parts, {logit}: {value}."
        : i === start
        ? "Largest contribution: {part}, {value}. Sum up to here: {sum}."
        : "{part}: {value}. Sum up to here: {sum}.",
      { part: title, value: formatSigned(value), sum: formatSigned(to), logit: name },
    );
  }
  columns.forEach((each, i) => each.addEventListener("pointerenter", () => showReading(i)));
  drawn.addEventListener("pointerleave", () => showReading(start));
  drawn.addEventListener("keydown", (event) => {
    const next =
      { ArrowLeft: current - 1, ArrowRight: current + 1, Home: 0, End: bars.length - 1 }[event.key];
    if (bars[next] === undefined) return;
    event.preventDefault();
    showReading(next);
  });
  showReading(start);
  const legend = markup`<p class="legend">
    <span><i class="attention"></i>attention</span>
    <span><i class="mlp"></i>MLP</span>
    <span>Orange increases the logit, and purple decreases it. The axis shows layer numbers.</span>
  </p>`;
  return [reading, drawn, legend];
}

// The results below the two choices.
function drawResults(value, k, against) {
  // Contributions to one logit or to the difference of two logits; they add up to the total.
  const getContributions = (
    numbers,
  ) => (against === NONE ? numbers[k] : subtract(numbers[k], numbers[Number(against)]));
  const names = ["embedding", "heads", "bias", "mlps", "constant", "logits"];
  const [embedding, heads, bias, mlps, constant, logit] = names.map((key) => getContributions(value[key]));
  const attention = heads.map((line, l) => line.reduce((sum, each) => sum + each, bias[l]));
  const makeEnd = (text, sum) => ({ name: text, short: text, kind: "end", value: sum });
  const makeLayerRows = (layer, sum) => [
    { name: `Layer ${layer}, attention`, short: String(layer), kind: "attention", value: sum },
    { name: `Layer ${layer}, MLP`, short: "", kind: "mlp", value: mlps[layer - 1] },
  ];
  const rows = [
    makeEnd("Embedding", embedding),
    ...attention.flatMap((each, l) => makeLayerRows(l + 1, each)),
    makeEnd("Biases", constant),
    { ...makeEnd("Logit", logit), whole: true },
  ];
  const name = fill(
    against === NONE ? "the logit of {name}" : "the logit of {name} minus the logit of {other}",
    {
      name: value.classes[k],
      other: value.classes[Number(against)] ?? "",
    },
  );
  const limit = findLargest(heads.flat());
  const cells = heads.map((line, l) => ({
    name: `layer ${l + 1}`,
    cells: line.map((each, h) => ({
      text: formatSigned(each),
      label: `Layer ${l + 1}, head ${h + 1} adds ${formatSigned(each)} to ${name}`,
      rgb: getColour((each / (limit || 1) + 1) / 2),
    })),
  }));
  const drawnHeads = drawGrid({
    caption: `Contribution of each head to ${name}. Columns are heads.`,
    corner: "",
    columns: heads[0].map((_, h) => ({ text: h + 1 })),
    rows: cells,
  });
  const byHead = markup`<div class="heads">${drawnHeads}${
    drawScale(formatSigned(-limit), formatSigned(limit), " (added to the logit)")
  }</div>`;
  const describePlace = (layer) => layer ? `after layer ${layer}` : "before layer 1";
  const numbers = value.lengths.map((
    norms,
    l,
  ) => [describePlace(l), ...norms.map((norm) => norm.toFixed(2))]);
  const contributions = rows.map((row) => [row.name, formatSigned(row.value, 4)]);
  return markup`<p class="sum">The parts below add up to ${name}: ${formatSigned(logit)}.</p>
    ${drawWaterfall(rows, name)}${byHead}
    ${drawFoldedTable("Contribution of each part", ["part", "contribution to the logit"], contributions)}
    ${
    drawFoldedTable(
      "Norm of the residual stream after each layer",
      ["place", value.read, "patches, mean"],
      numbers,
    )
  }`;
}

function subtract(a, b) {
  return Array.isArray(a) ? a.map((each, i) => subtract(each, b[i])) : a - b;
}

function render(element, value) {
  const names = value.classes.map((text, i) => [String(i), text]);
  let [target, other] = [names[0][0], NONE]; // the chosen options
  const drawChoice = (name, options, choose) => {
    const change = (event) => {
      choose(event.target.value);
      draw();
    };
    return markup`<select class="vd-select ${name}" @change=${change}>${
      options.map(([key, text]) => markup`<option value=${key}>${text}</option>`)
    }</select>`;
  };
  const targets = drawChoice("target", names, (key) => (target = key));
  const others = drawChoice("other", [[NONE, "nothing"], ...names], (key) => (other = key));
  const draw = () =>
    renderInto(
      markup`${
        drawCaption(value.caption)
      }<label>Logit of ${targets}</label> <label>minus ${others}</label><div>${
        drawResults(value, Number(target), other)
      }</div>${drawAbout(value.about)}`,
      element,
    );
  draw();
  for (const select of element.querySelectorAll("select")) select.selectedIndex = 0;
}

store.define("residual_stream", { skeleton: "rows", render });
