// The parts of a model from the image to the prediction, drawn with the results of this image. A click on a part opens
// its explanation by clicking the page's own controls.
import { drawCaption, drawFoldedTable, formatSigned } from "../../../components/grid.js";
import {
  drawMarkdown,
  drawValues,
  findLargest,
  formatProbability,
  getColour,
} from "../../../components/shared.js";
import { markup, nothing, render } from "../../../markup.js";
import * as store from "../../../store.js";
import { fill, formatNumber } from "../../../texts.js";

const RESIDUAL_TEXT = "Residual stream";
const LENS_TEXT = "Logit lens";

function open({ part, section }) {
  if (part) document.querySelector(`#part input[value="${part}"]`)?.click();
  else document.querySelector(`#sections [data-tab-id="${section}"]`)?.click();
}

// A box with a drawing, a title and a description; a button if it has a link.
function drawBox({ title, description, link }, { drawing = nothing, strip = nothing } = {}) {
  const drawLink = () => markup`<u>Open ${link.title}</u>`;
  const words = markup`<span class="words"><strong>${title}</strong><small>${
    drawMarkdown(description)
  }</small> ${link ? drawLink() : nothing}</span>`;
  const content = markup`${drawing}${words}${strip}`;
  if (!link) return markup`<div class="part">${content}</div>`;
  return markup`<button type="button" class="part" data-pick=${title} @click=${() =>
    open(link)}>${content}</button>`;
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

function drawContributions({ steps, answers }) {
  const limit = findLargest(steps.contributions);
  return drawColumns(steps.contributions.map((each, i) => {
    const size = (50 * Math.abs(each)) / (limit || 1);
    const colour = `rgb(${getColour(each > 0 ? 0.84 : 0.16).join(" ")})`;
    const style = `height: ${size}%; ${each < 0 ? "top" : "bottom"}: 50%; background: ${colour}`;
    const title = `Layer ${i + 1} adds ${formatSigned(each)} to the logit of ${answers[0][0]}`;
    return markup`<span class="signed" title=${title}><i style=${style}></i><b>${
      formatSigned(each, 1)
    }</b></span>`;
  }));
}

function drawLens({ steps, answers }) {
  return drawColumns(steps.probabilities.map((each, i) => {
    const values = { layer: i + 1, name: answers[0][0], probability: formatProbability(each) };
    return markup`<span class="rising" title=${
      fill("After layer {layer}: {name} {probability}", values)
    }><i style="height: ${100 * each}%"></i><b>${(100 * each).toFixed(0)}</b></span>`;
  }));
}

const isInLayers = ({ kind }) => ["attention", "mlp"].includes(kind);

// The layers: their parts, and what each layer adds to the prediction.
function drawLayers(value) {
  const { answers, parts, repeated, steps } = value;
  const [attention, ...others] = parts.filter(isInLayers);
  const name = answers[0]?.[0];
  const residual = {
    title: RESIDUAL_TEXT,
    description: `Contribution of each layer to the logit of ${name ?? ""}.`,
    link: { title: RESIDUAL_TEXT, part: "residual_stream" },
  };
  const reading = {
    title: LENS_TEXT,
    description: `Probability of ${name ?? ""} after each layer, in percent.`,
    link: { title: LENS_TEXT, part: "lens" },
  };
  const numbers = drawColumns(steps.maps.map((_, i) => markup`<b>${i + 1}</b>`));
  return markup`<div class="layers">
    <p><span>${repeated}</span>${numbers}</p>
    ${drawBox(attention, { strip: drawMaps(value) })}
    ${others.map((part) => drawBox(part))}
    ${steps.contributions.length ? drawBox(residual, { strip: drawContributions(value) }) : nothing}
    ${steps.probabilities.length ? drawBox(reading, { strip: drawLens(value) }) : nothing}
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
    { title: "Image", description: `The input of the model: ${value.size} × ${value.size} pixels.` },
    { drawing: markup`<span class="drawing">${drawImage(value)}</span>` },
  );
const drawConvolutional = (value) => [
  drawRow(drawInput(value), ...value.parts.map((part) => drawBox(part)), drawPrediction(value)),
];

function drawSizes({ parts }) {
  const computeTotal = (name) => parts.reduce((sum, each) => sum + each[name], 0);
  const [parameters, macs] = [computeTotal("parameters"), computeTotal("macs")];
  const formatCell = (count, all) => `${formatNumber(count)} (${formatProbability(count / (all || 1))})`;
  const rows = parts.map((
    each,
  ) => [each.title, formatCell(each.parameters, parameters), formatCell(each.macs, macs)]);
  rows.push(["total", formatNumber(parameters), formatNumber(macs)]);
  return drawFoldedTable("Parameters and multiply-adds", ["part", "parameters", "multiply-adds"], rows);
}

function draw(place, value) {
  const flow = (value.steps ? drawTransformer : drawConvolutional)(value);
  render(markup`${drawCaption(value.caption)}<ol class="flow">${flow}</ol>${drawSizes(value)}`, place);
}

store.define("architecture", { skeleton: "figures", render: draw });
