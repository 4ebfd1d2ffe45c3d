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
import { makeElement, markup, nothing, render } from "../../../markup.js";
import * as store from "../../../store.js";
import { drawSelect, formatSignColour } from "../shared.js";

const [CLASS, OTHER] = ["class", "other"].map((name) => `residual_stream.${name}`); // state keys
const ABOUT =
  "Each attention module and each MLP adds a vector to the tokens (the residual stream). The classifier reads the sum, so each part contributes to the logit. The scale of the final LayerNorm is fixed at its value for this image. A part may be more important than its contribution shows, because the contribution excludes effects through later layers.";

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
    const style = `top: ${top}%; height: ${height}%; ${whole ? "" : `--colour: ${formatSignColour(value)}`}`;
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
    const text = formatSigned(value);
    const part = i === start ? `Largest contribution: ${title}, ${text}` : `${title}: ${text}`;
    reading.textContent = whole
      ? `Sum of all parts, ${name}: ${text}.`
      : `${part}. Sum up to here: ${formatSigned(to)}.`;
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

const subtract = (a, b) => (Array.isArray(a) ? a.map((each, i) => subtract(each, b[i])) : a - b);

// Contributions to the logit of class `k` or, with a class `other`, to the difference of two logits. They add up to
// the logit.
function computeContributions(data, k, other) {
  const names = ["embedding", "heads", "bias", "mlps", "constant", "logits"];
  return Object.fromEntries(names.map((name) => {
    const numbers = data[name];
    return [name, other < 0 ? numbers[k] : subtract(numbers[k], numbers[other])];
  }));
}

// The bars of the waterfall chart.
function listBars({ embedding, heads, bias, mlps, constant, logits }) {
  const makeEnd = (text, value) => ({ name: text, short: text, kind: "end", value });
  const layers = heads.flatMap((line, l) => [
    {
      name: `Layer ${l + 1}, attention`,
      short: String(l + 1),
      kind: "attention",
      value: line.reduce((sum, each) => sum + each, bias[l]),
    },
    { name: `Layer ${l + 1}, MLP`, short: "", kind: "mlp", value: mlps[l] },
  ]);
  return [
    makeEnd("Embedding", embedding),
    ...layers,
    makeEnd("Biases", constant),
    { ...makeEnd("Logit", logits), whole: true },
  ];
}

function drawHeads(heads, name) {
  const limit = findLargest(heads.flat());
  const rows = heads.map((line, l) => ({
    name: `layer ${l + 1}`,
    cells: line.map((each, h) => ({
      text: formatSigned(each),
      label: `Layer ${l + 1}, head ${h + 1} adds ${formatSigned(each)} to ${name}`,
      rgb: getColour((each / (limit || 1) + 1) / 2),
    })),
  }));
  return markup`<div class="heads">${
    drawGrid({
      caption: `Contribution of each head to ${name}. Columns are heads.`,
      corner: "",
      columns: heads[0].map((_, h) => ({ text: h + 1 })),
      rows,
    })
  }${drawScale(formatSigned(-limit), formatSigned(limit), " (added to the logit)")}</div>`;
}

// The results below the two choices.
function drawResults(data, k, other) {
  const { classes, lengths, reads_class_token: readsClassToken } = data;
  const contributions = computeContributions(data, k, other);
  const bars = listBars(contributions);
  const name = `the logit of ${classes[k]}${other < 0 ? "" : ` minus the logit of ${classes[other]}`}`;
  const norms = lengths.map((each, l) => [
    l ? `after layer ${l}` : "before layer 1",
    ...each.map((norm) => norm.toFixed(2)),
  ]);
  const columns = ["place", readsClassToken ? "class token" : "mean of the patches", "patches, mean"];
  return markup`<p class="sum">The parts below add up to ${name}: ${formatSigned(contributions.logits)}.</p>
    ${drawWaterfall(bars, name)}${drawHeads(contributions.heads, name)}
    ${
    drawFoldedTable(
      "Contribution of each part",
      ["part", "contribution to the logit"],
      bars.map((bar) => [bar.name, formatSigned(bar.value, 4)]),
    )
  }
    ${drawFoldedTable("Norm of the residual stream after each layer", columns, norms)}`;
}

store.define("residual_stream", {
  skeleton: "rows",
  follows: [CLASS, OTHER],
  render(element, data, state) {
    const names = data.classes.map((name) => [name, name]);
    const k = Math.max(data.classes.indexOf(state[CLASS]), 0);
    const other = data.classes.indexOf(state[OTHER]);
    render(
      markup`${
        drawCaption(
          "Direct logit attribution: the contribution of each attention module and each MLP to the logit of a class, through the final LayerNorm.",
        )
      }<label>Logit of ${drawSelect(CLASS, names, data.classes[k], "target")}</label> <label>minus ${
        drawSelect(OTHER, [["", "nothing"], ...names], data.classes[other] ?? "", "other")
      }</label><div>${drawResults(data, k, other)}</div>${drawAbout(ABOUT)}`,
      element,
    );
  },
});
