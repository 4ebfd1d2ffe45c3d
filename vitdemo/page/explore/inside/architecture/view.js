// The parts of a model from the image to the prediction, drawn with the results of this image. A click on a part opens
// its explanation.
import { drawCaption, drawFoldedTable, formatSigned } from "../../../components/grid.js";
import { drawMarkdown, drawValues, findLargest, formatProbability } from "../../../components/shared.js";
import { markup, nothing, render } from "../../../markup.js";
import * as store from "../../../store.js";
import { fillPlural, formatNumber } from "../../../texts.js";
import { formatSignColour } from "../shared.js";

// The keys of the following objects are kinds of parts. A link is a change of the view state.
const LINKS = {
  patches: { inside: "embeddings" },
  stem: { inside: "embeddings" },
  tokens: { inside: "embeddings" },
  attention: { inside: "one_head" },
  head: { section: "class-attribution" },
};
const LAYERS = { inside: "layers" };
const NUMBERED = 0.2; // probability from which a bar has a number; the other numbers are in the titles
const TITLES = {
  patches: "Patch embedding",
  stem: "Convolutional stem",
  tokens: "Tokens and positions",
  attention: "Multi-head self-attention",
  mlp: "MLP",
  norm: "Final LayerNorm",
  head: "Classifier",
  convolutions: "Convolutions",
  linear: "Classifier",
  layer: "Normalisation",
};
// Details of the parts, for the table below the diagram
const DETAILS = {
  patches: ({ rows, columns, width }) =>
    `${rows} × ${columns} patches. Each becomes a token, a vector of ${width} numbers.`,
  stem: () => "Convolutions with overlapping receptive fields.",
  tokens: () => "A learned position embedding is added to each token.",
  attention: ({ tokens }) => `Each token attends to all ${tokens} tokens.`,
  mlp: ({ width, hidden }) => `Processes each token separately: from ${width} to ${hidden} numbers and back.`,
  norm: ({ width }) =>
    `Scales the ${width} numbers of a token to mean 0 and variance 1, then applies a learned scale.`,
  head: ({ answer, width }) => `Reads ${answer}, ${width} numbers.`,
};
const DESCRIPTIONS = {
  patches: ({ side, width }) => `${side} × ${side} pixels each, to ${width} numbers`,
  stem: ({ rows, columns, width }) => `${rows * columns} tokens of ${width} numbers`,
  tokens({ prefix, patches, tokens }) {
    const names = prefix.join(", ") || "no special token";
    return `${tokens}: ${names} and ${patches} patches. Bright: large norm`;
  },
  attention: ({ heads, size }) => `${heads} heads of ${size} numbers`,
  mlp: () => "Each token separately",
  norm: () => "Mean 0, variance 1 per token",
  head: ({ classes }) => `${classes} classes`,
  // Convolutional models, whose layers are shown
  convolutions: ({ count, side, before, after, is_frozen: isFrozen, name }) =>
    `${
      fillPlural(count, "A layer", "{count} layers")
    } of ${side} x ${side} filters: ${before} channels to ${after}${
      isFrozen ? "; computed from images, not trained" : ""
    } (\`${name}\`).`,
  linear: ({ before, after, name }) =>
    `Maps ${before} numbers, one per channel, to ${after} classes (\`${name}\`).`,
  layer: ({ name }) => `Normalises the mean and variance of each channel (\`${name}\`).`,
};

// A box with a drawing, a title and a description; a button if it has a link.
function drawBox({ title, description, link }, { drawing = nothing, strip = nothing } = {}) {
  const words = markup`<span class="words"><strong>${title}</strong><small>${
    drawMarkdown(description)
  }</small></span>`;
  const content = markup`${drawing}${words}${strip}`;
  if (!link) return markup`<div class="part">${content}</div>`;
  return markup`<button type="button" class="part" data-pick=${title} @click=${() =>
    store.set(link)}>${content}</button>`;
}

const drawImage = ({ seen }) => markup`<img src=${seen.url} alt="">`;
const drawColumns = (values) =>
  markup`<span class="strip" style="--columns: ${values.length}">${values}</span>`;

function drawPatches(value) {
  const [rows, count] = value.steps.grid;
  return markup`<span class="drawing cut" style="--rows: ${rows}; --columns: ${count}">${
    drawImage(value)
  }</span>`;
}

function drawHeatmap(values, className = "") {
  const canvas = document.createElement("canvas");
  canvas.className = className;
  drawValues(canvas, values.flat(), [values.length, values[0].length]);
  return canvas;
}

const drawMaps = (value) =>
  drawColumns(
    value.steps.maps.map((values, i) =>
      markup`<span class="vd-overlay" title="Layer ${i + 1}: attention, mean of the heads">${
        drawImage(value)
      }${drawHeatmap(values)}</span>`
    ),
  );

// Bars with the number of the largest contribution; the others are in the titles.
function drawContributions({ steps, answers }) {
  const limit = findLargest(steps.contributions);
  return drawColumns(steps.contributions.map((each, i) => {
    const size = (50 * Math.abs(each)) / (limit || 1);
    const side = each < 0 ? "top" : "bottom";
    const style = `height: ${size}%; ${side}: 50%; background: ${formatSignColour(each)}`;
    const title = `Layer ${i + 1} adds ${formatSigned(each)} to the logit of ${answers[0][0]}`;
    return markup`<span class="signed" title=${title}><i style=${style}></i><b>${
      Math.abs(each) === limit ? formatSigned(each, 1) : ""
    }</b></span>`;
  }));
}

function drawLens({ steps, answers }) {
  return drawColumns(steps.probabilities.map((each, i) => {
    const title = `After layer ${i + 1}: ${answers[0][0]} ${formatProbability(each)}`;
    return markup`<span class="rising" title=${title}><i style="height: ${100 * each}%"></i><b>${
      each >= NUMBERED ? (100 * each).toFixed(0) : ""
    }</b></span>`;
  }));
}

const isInLayers = ({ kind }) => ["attention", "mlp"].includes(kind);

// The layers: their parts, and the contribution of each layer to the prediction.
function drawLayers(value) {
  const { answers, parts, steps } = value;
  const [attention, ...others] = parts.filter(isInLayers);
  const name = answers[0]?.[0] ?? "";
  const drawSteps = (title, description, strip) => drawBox({ title, description, link: LAYERS }, { strip });
  const numbers = drawColumns(steps.maps.map((_, i) => markup`<b>${i + 1}</b>`));
  return markup`<div class="layers">
    <p><span>${steps.maps.length} layers (blocks)</span>${numbers}</p>
    ${drawBox(attention, { strip: drawMaps(value) })}
    ${others.map((part) => drawBox(part))}
    ${
    steps.contributions.length
      ? drawSteps("Residual stream", `Added to the logit of ${name}`, drawContributions(value))
      : nothing
  }
    ${
    steps.probabilities.length
      ? drawSteps("Logit lens", `Probability of ${name} after a layer, %`, drawLens(value))
      : nothing
  }
  </div>`;
}

function drawPrediction({ answers }) {
  const drawClass = ([name, share]) =>
    markup`<span class="answer"><span>${name}</span><i style="width: ${100 * share}%"></i><b>${
      formatProbability(share)
    }</b></span>`;
  return markup`<div class="part"><span class="words"><strong>Prediction</strong>${
    answers.map(drawClass)
  }</span></div>`;
}

const drawRow = (...boxes) => markup`<li><ol>${boxes.map((each) => markup`<li>${each}</li>`)}</ol></li>`;

function drawTransformer(value) {
  const norms = drawHeatmap(value.steps.norms, "drawing");
  const drawings = { patches: drawPatches(value), stem: drawPatches(value), tokens: norms };
  const first = value.parts.filter(({ kind }) => kind in drawings);
  const last = value.parts.filter((part) => !isInLayers(part) && !(part.kind in drawings));
  const end = value.answers.length ? [drawPrediction(value)] : [];
  return [
    drawRow(drawInput(value), ...first.map((part) => drawBox(part, { drawing: drawings[part.kind] }))),
    markup`<li>${drawLayers(value)}</li>`,
    drawRow(...last.map((part) => drawBox(part)), ...end),
  ];
}

const drawInput = (value) =>
  drawBox(
    { title: "Image", description: `${value.size} × ${value.size} pixels` },
    { drawing: markup`<span class="drawing">${drawImage(value)}</span>` },
  );
const drawConvolutional = (value) => [
  drawRow(drawInput(value), ...value.parts.map((part) => drawBox(part)), drawPrediction(value)),
];

function drawSizes({ parts }) {
  const computeTotal = (name) => parts.reduce((sum, each) => sum + each[name], 0);
  const [parameters, macs] = [computeTotal("parameters"), computeTotal("macs")];
  const formatCell = (count, all) => `${formatNumber(count)} (${formatProbability(count / (all || 1))})`;
  const rows = parts.map((each) => [
    each.title,
    DETAILS[each.kind]?.(each.sizes) ?? "",
    formatCell(each.parameters, parameters),
    formatCell(each.macs, macs),
  ]);
  rows.push(["total", "", formatNumber(parameters), formatNumber(macs)]);
  const columns = ["part", { label: "details", numeric: false }, "parameters", "multiply-adds"];
  return drawFoldedTable("Details", columns, rows);
}

function draw(place, data) {
  const parts = data.parts.map((part) => ({
    ...part,
    title: TITLES[part.kind],
    description: DESCRIPTIONS[part.kind](part.sizes),
    link: LINKS[part.kind],
  }));
  const value = { ...data, parts };
  const drawNote = () => drawCaption(`'${data.run}' is convolutional: it has no tokens and no attention.`);
  const flow = (data.steps ? drawTransformer : drawConvolutional)(value);
  render(markup`${data.steps ? nothing : drawNote()}<ol class="flow">${flow}</ol>${drawSizes(value)}`, place);
}

store.define("architecture", { skeleton: "figures", render: draw });
