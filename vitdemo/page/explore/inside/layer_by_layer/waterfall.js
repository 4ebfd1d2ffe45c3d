// Contributions of each part of the model to a logit, or to the difference of two logits. The parts are in a waterfall
// chart in the order of the model. Grids and tables show the single heads, and the norm of the tokens after each layer.
import { drawCaption, drawFoldedTable, drawGrid, drawScale, formatSigned } from "../../../components/grid.js";
import { findLargest, getColour } from "../../../components/shared.js";
import { makeElement, markup, nothing } from "../../../markup.js";
import { drawSelect, formatSignColour } from "../shared.js";

export const [CLASS, OTHER] = ["class", "other"].map((name) => `residual_stream.${name}`); // state keys

const isPart = ({ whole }) => !whole;

// The parts as bars from the sum before to the sum after each part. The last bar is the total. Above the bars is a
// sentence about the largest part, or about the part under the pointer or chosen with the arrow keys. The bars of the
// chosen layer have a background, and a click on a bar chooses its layer.
function drawWaterfall(rows, name, chosen, choose) {
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
  const columns = bars.map(({ from, to, value, whole, short, kind, layer }) => {
    const [top, height] = [computePlace(Math.max(from, to)), Math.abs(computePlace(from) - computePlace(to))];
    const style = `top: ${top}%; height: ${height}%; ${whole ? "" : `--colour: ${formatSignColour(value)}`}`;
    const line = markup`<s style="top: ${computePlace(to)}%"></s>`; // to the next bar
    return makeElement(
      markup`<div class="column ${kind} ${layer === chosen ? "chosen" : ""}" @click=${() =>
        layer >= 0 && choose(layer)}><i style=${style}></i>${
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
    <span>orange: increases the logit</span> <span>purple: decreases it</span>
  </p>`;
  return [reading, drawn, legend];
}

const subtract = (a, b) => (Array.isArray(a) ? a.map((each, i) => subtract(each, b[i])) : a - b);

// Contributions to the logit of class `k` or, with a class `other`, to the difference of two logits. The contributions
// add up to the logit or to the difference.
function computeContributions(data, k, other) {
  const names = ["embedding", "heads", "bias", "mlps", "constant", "logits"];
  return Object.fromEntries(names.map((name) => {
    const numbers = data[name];
    return [name, other < 0 ? numbers[k] : subtract(numbers[k], numbers[other])];
  }));
}

// The bars of the waterfall chart; `layer` is 0 for the embedding.
function listBars({ embedding, heads, bias, mlps, constant, logits }) {
  const makeEnd = (text, value) => ({ name: text, short: text, kind: "end", value });
  const layers = heads.flatMap((line, l) => [
    {
      name: `Layer ${l + 1}, attention`,
      short: String(l + 1),
      kind: "attention",
      layer: l + 1,
      value: line.reduce((sum, each) => sum + each, bias[l]),
    },
    { name: `Layer ${l + 1}, MLP`, short: "", kind: "mlp", layer: l + 1, value: mlps[l] },
  ]);
  return [
    { ...makeEnd("Embedding", embedding), short: "0", kind: "embedding", layer: 0 },
    ...layers,
    makeEnd("Biases", constant),
    { ...makeEnd("Logit", logits), whole: true },
  ];
}

function drawHeads(heads, name, layer) {
  const limit = findLargest(heads.flat());
  const rows = heads.map((line, l) => ({
    name: `layer ${l + 1}`,
    isCurrent: l + 1 === layer,
    cells: line.map((each, h) => ({
      text: formatSigned(each),
      label: `Layer ${l + 1}, head ${h + 1} adds ${formatSigned(each)} to ${name}`,
      rgb: getColour((each / (limit || 1) + 1) / 2),
    })),
  }));
  return markup`<div class="heads">${drawCaption(`Contribution of each head to ${name}`)}${
    drawGrid({ caption: "", corner: "", columns: heads[0].map((_, h) => ({ text: h + 1 })), rows })
  }${drawScale(formatSigned(-limit), formatSigned(limit), "")}</div>`;
}

// The index of the chosen class, the index of the class to subtract or -1, and the name of the result.
function findClasses({ classes }, state) {
  const [k, other] = [Math.max(classes.indexOf(state[CLASS]), 0), classes.indexOf(state[OTHER])];
  const name = `the logit of ${classes[k]}${other < 0 ? "" : ` minus the logit of ${classes[other]}`}`;
  return { k, other, name };
}

// The menus of classes with the waterfall chart of their logits, and the contributions of the heads.
export function drawStream(data, state, layer, choose) {
  const { k, other, name } = findClasses(data, state);
  const contributions = computeContributions(data, k, other);
  const names = data.classes.map((each) => [each, each]);
  const others = [["", "nothing"], ...names];
  const waterfall = markup`<p class="sum"><label>Logit of ${
    drawSelect(CLASS, names, data.classes[k], "target")
  }</label> <label>minus ${drawSelect(OTHER, others, data.classes[other] ?? "", "other")}</label> = <b>${
    formatSigned(contributions.logits)
  }</b></p>${drawWaterfall(listBars(contributions), name, layer, choose)}`;
  return { waterfall, heads: drawHeads(contributions.heads, name, layer) };
}

export function drawStreamTables(data, state) {
  const { k, other } = findClasses(data, state);
  const parts = listBars(computeContributions(data, k, other));
  const norms = data.lengths.map((each, l) => [
    l ? `after layer ${l}` : "before layer 1",
    ...each.map((norm) => norm.toFixed(2)),
  ]);
  const reader = data.reads_class_token ? "class token" : "mean of the patches";
  return [
    drawFoldedTable(
      "Contribution of each part",
      ["part", "contribution to the logit"],
      parts.map((part) => [part.name, formatSigned(part.value, 4)]),
    ),
    drawFoldedTable(
      "Norm of the residual stream after each layer",
      ["place", reader, "patches, mean"],
      norms,
    ),
  ];
}
