// One head, number by number: all results follow from the queries, keys and values of one layer.
// Another head, query or key is computed here; another layer needs one request.
import { drawCaption, drawFoldedTable, formatSigned } from "../../../components/grid.js";
import { createFileView, decodeValues } from "../../../components/matrices.js";
import {
  drawValues,
  findLargest,
  findPatch,
  formatPercent,
  makeRange,
  placeRing,
} from "../../../components/shared.js";
import { makeElement, markup, render } from "../../../markup.js";
import * as store from "../../../store.js";
import { fill } from "../../../texts.js";

const STRONGEST = 5;
let place = null; // the element of the view
let layer = null; // {value (the payload), numbers, size (N), width (D/H), heads}
let choices = null; // the three <select> elements {head, query, key}
let pointed = null; // the key under the pointer; null: the chosen key
let chosenFor = ""; // run and sizes for which the choices are valid
const findPart = (name) => place.querySelector("." + name);

const getVector = (which, h, n) => {
  const { numbers, size, width, heads } = layer;
  const at = ((which * heads + h) * size + n) * width;
  return numbers.subarray(at, at + width);
};
const computeDotProduct = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
const computeProducts = (a, b) => a.map((value, i) => value * b[i]);

function getName(n) {
  const { prefix, grid: [, columns] } = layer.value;
  if (n < prefix.length) return prefix[n];
  const p = n - prefix.length;
  return `patch row ${Math.floor(p / columns) + 1}, column ${(p % columns) + 1}`;
}

// Dot products, scores and weights (N) of one query, and the head's output for its token.
function computeHead(h, n) {
  const q = getVector(0, h, n);
  const dots = Array.from({ length: layer.size }, (_, j) => computeDotProduct(q, getVector(1, h, j)));
  const scores = dots.map((value) => value * layer.value.scale);
  const top = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - top));
  const total = powers.reduce((sum, value) => sum + value, 0);
  const weights = powers.map((value) => value / total);
  const output = new Float32Array(layer.width);
  weights.forEach((weight, j) =>
    getVector(2, h, j).forEach((value, i) => {
      output[i] += weight * value;
    })
  );
  return { dots, scores, weights, output, total: total * Math.exp(top) };
}

function drawStrip(name, values, limit) {
  const label = `${name}: ${values.length} numbers from ${formatSigned(Math.min(...values))} to ${
    formatSigned(Math.max(...values))
  }`;
  const drawn = makeElement(markup`<canvas role="img" aria-label=${label}></canvas>`);
  drawValues(drawn, values, [1, values.length], { top: limit, signed: true });
  drawn.addEventListener("pointermove", (event) => {
    const i = Math.min(Math.floor((event.offsetX / drawn.clientWidth) * values.length), values.length - 1);
    drawn.title = `number ${i + 1}: ${formatSigned(values[i], 4)}`;
  });
  return markup`<div class="strip"><span>${name}</span>${drawn}</div>`;
}

const drawStep = (title, ...content) =>
  markup`<li><strong>${title}</strong>${
    content.map((each) => (typeof each === "string" ? markup`<div>${each}</div>` : each))
  }</li>`;

function drawSteps(h, n, j, found) {
  const [q, k, v] = [getVector(0, h, n), getVector(1, h, j), getVector(2, h, j)];
  const [terms, handed] = [computeProducts(q, k), v.map((value) => value * found.weights[j])];
  const both = Math.max(findLargest(q), findLargest(k));
  const output = findLargest(found.output);
  const values = {
    count: layer.size,
    width: layer.width,
    query: getName(n),
    key: getName(j),
    dot: formatSigned(found.dots[j]),
    factor: layer.value.scale.toFixed(4),
    score: formatSigned(found.scores[j]),
    power: formatPlain(Math.exp(found.scores[j])),
    total: formatPlain(found.total),
    percent: formatSigned(100 * computeShare(handed, found.output)),
  };
  const weight = markup`<b class="weight">${formatPercent(found.weights[j])}</b>`;
  const fillText = (text) => fill(text, values);
  return [
    drawStep(
      "Query and key, number by number",
      drawStrip("query q", q, both),
      drawStrip("key k", k, both),
      drawStrip("products", terms, null),
      fillText("The sum of the products is the dot product q · k = {dot}."),
    ),
    drawStep(
      "Scale",
      fillText(
        "The dot product divided by √{width}, the square root of the head's width, is the score: {dot} × {factor} = {score}.",
      ),
    ),
    drawStep(
      "Softmax",
      fillText("e to the power of the score, divided by the sum over all {count} keys: {power} / {total} = "),
      weight,
      fillText("This is the attention weight from the {query} to the {key}."),
    ),
    drawStep(
      "Values, weighted and added",
      drawStrip("value v", v, null),
      drawStrip("weight × v", handed, output),
      drawStrip("sum of all", found.output, output),
      fillText(
        "The sum over all {count} tokens is the output of this head for the {query}. This key contributes {percent}% of the output, measured along the direction of the output.",
      ),
    ),
  ];
}

function formatPlain(number) {
  if (number < 1e-3 || number >= 1e6) return number.toExponential(2);
  return Number(number.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 });
}
const computeShare = (one, all) => computeDotProduct(one, all) / computeDotProduct(all, all);

function draw() {
  const [h, n] = [Number(choices.head.value), Number(choices.query.value)];
  const j = pointed ?? Number(choices.key.value);
  const found = computeHead(h, n);
  const prefix = layer.value.prefix.length;
  drawValues(findPart("map canvas"), found.weights.slice(prefix), layer.value.grid);
  for (const [name, token] of [["query", n], ["key", j]]) {
    placeRing(findPart(`ring.${name}`), layer.value.grid, token - prefix);
  }
  render(drawSteps(h, n, j, found), findPart("steps"));
  const order = found.weights.map((_, i) => i).sort((a, b) => found.weights[b] - found.weights[a]);
  const most = order.slice(0, STRONGEST).map((i) =>
    markup`<li><span>${getName(i)}</span><b>${formatPercent(found.weights[i])}</b></li>`
  );
  const title = `Keys with the largest weights for the ${getName(n)}`;
  render(markup`<li><strong>${title}</strong></li>${most}`, findPart("strongest"));
  if (pointed !== null) return; // the table follows the chosen key, not the pointer
  const columns = ["key token", "q · k", "score", "weight, %"];
  const rows = found.weights.map((weight, i) => [
    getName(i),
    formatSigned(found.dots[i], 4),
    formatSigned(found.scores[i], 4),
    (100 * weight).toFixed(4),
  ]);
  render(drawFoldedTable("Attention weights of the query token", columns, rows), findPart("numbers"));
}

function point(key) {
  pointed = key;
  draw();
}

// Return the patch with the largest attention weight of a query in the first head.
function findStrongest(n) {
  const { weights } = computeHead(0, n);
  const patches = weights.slice(layer.value.prefix.length);
  return weights.length - patches.length + patches.indexOf(Math.max(...patches));
}

// Offer all heads and tokens. For the same model, keep the user's choices.
function createChoices({ run, heads, prefix, grid: [rows, columns] }) {
  const asking = prefix.length ? 0 : Math.floor(rows / 2) * columns + Math.floor(columns / 2);
  const names = { head: (i) => String(i + 1), query: getName, key: getName };
  const first = { head: 0, query: asking, key: findStrongest(asking) };
  const isSame = chosenFor === `${run} ${heads} ${layer.size}`;
  chosenFor = `${run} ${heads} ${layer.size}`;
  choices = Object.fromEntries(
    Object.entries(names).map(([name, label]) => {
      const count = name === "head" ? heads : layer.size;
      const options = makeRange(count, (i) => markup`<option value=${i}>${label(i)}</option>`);
      const select = makeElement(markup`<select class="vd-select ${name}">${options}</select>`);
      select.value = isSame ? choices[name].value : String(first[name]);
      select.addEventListener("change", () => point(null));
      return [name, select];
    }),
  );
}

function drawMap({ run, seen }) {
  const findToken = (event) =>
    layer.value.prefix.length + findPatch(findPart("map"), layer.value.grid, event);
  const move = (event) => point(findToken(event));
  const click = (event) => {
    choices.query.value = String(findToken(event));
    draw();
  };
  return markup`<div class="map" @pointermove=${move} @pointerleave=${() => point(null)} @click=${click}>
    <img src=${seen.url} alt="Input image of ${run} with the attention weights of the chosen query"><canvas></canvas>
    <i class="ring query"></i><i class="ring key"></i>
  </div>`;
}

function drawLayout(value) {
  createChoices(value);
  const labels = [["Head", choices.head], ["Query token", choices.query], ["Key token", choices.key]];
  render(
    markup`${drawCaption(value.caption)}
      <div class="choices">${
      labels.map(([text, select]) => markup`<label>${`${text} `}${select}</label>`)
    }</div>
      <div class="both">
        <figure>${
      drawMap(value)
    }<figcaption>Attention weights of the query token. Point at a patch to use it as the key; click to use it as the query.</figcaption><ol class="strongest"></ol></figure>
        <ol class="steps" aria-live="polite"></ol>
      </div>
      <div class="numbers"></div>`,
    place,
  );
}

function take(element, value, file) {
  place = element;
  layer = { value, numbers: decodeValues(file), size: file.rows, width: file.columns, heads: file.maps };
  pointed = null;
  drawLayout(value);
  draw();
}

store.define("one_head", {
  skeleton: "figures",
  ...createFileView(({ numbers }) => numbers, take),
});
