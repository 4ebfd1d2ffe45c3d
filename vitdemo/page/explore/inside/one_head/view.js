// One head, number by number: all results follow from the queries, keys and values of one layer.
// Another head, query or key is computed here; another layer needs one request.
import { drawCaption, drawFoldedTable, formatSigned } from "../../../components/grid.js";
import { decodeValues } from "../../../components/matrices.js";
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
import { createFileView, drawSelect } from "../shared.js";

const [HEAD, QUERY, KEY] = ["head", "query", "key"].map((name) => `one_head.${name}`);
const STRONGEST = 5;

// --- the layer: the fields of its `data` (the payload), `numbers`, `size` (N), `width` (D/H) and `tokens` ---

// The tokens as { code, name }. A code is the value of a state key.
const listTokens = ({ prefix, grid: [rows, columns] }) => [
  ...prefix.map((name, i) => ({ code: `t${i}`, name })),
  ...makeRange(rows * columns, (p) => {
    const [row, column] = [Math.floor(p / columns) + 1, (p % columns) + 1];
    return { code: `${row},${column}`, name: `patch row ${row}, column ${column}` };
  }),
];

function makeLayer(data, file) {
  const [size, width] = [file.rows, file.columns];
  return { ...data, data, numbers: decodeValues(file), size, width, tokens: listTokens(data) };
}

function getVector({ numbers, size, width, heads }, which, h, n) {
  const at = ((which * heads + h) * size + n) * width;
  return numbers.subarray(at, at + width);
}

const computeDotProduct = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
const computeProducts = (a, b) => a.map((value, i) => value * b[i]);

// Dot products, scores and weights (N) of one query, and the head's output for its token.
function computeHead(layer, h, n) {
  const q = getVector(layer, 0, h, n);
  const dots = makeRange(layer.size, (j) => computeDotProduct(q, getVector(layer, 1, h, j)));
  const scores = dots.map((value) => value * layer.scale);
  const top = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - top));
  const total = powers.reduce((sum, value) => sum + value, 0);
  const weights = powers.map((value) => value / total);
  const output = new Float32Array(layer.width);
  weights.forEach((weight, j) =>
    getVector(layer, 2, h, j).forEach((value, i) => {
      output[i] += weight * value;
    })
  );
  return { dots, scores, weights, output, total: total * Math.exp(top) };
}

// The patch with the largest attention weight of a query in the first head.
function findStrongest(layer, n) {
  const patches = computeHead(layer, 0, n).weights.slice(layer.prefix.length);
  return layer.prefix.length + patches.indexOf(Math.max(...patches));
}

// Indices of the chosen head, query and key. Values that the model does not have are replaced. The
// new query is the class token or a central patch, and the new key is the strongest patch of this
// query.
function findChoices(layer, state) {
  const { heads, prefix, grid: [rows, columns], tokens } = layer;
  const findToken = (key) => tokens.findIndex(({ code }) => code === state[key]);
  const start = prefix.length ? 0 : Math.floor(rows / 2) * columns + Math.floor(columns / 2);
  const [query, key] = [findToken(QUERY), findToken(KEY)];
  return {
    h: Math.min(state[HEAD], heads) - 1,
    n: query < 0 ? start : query,
    j: key < 0 ? findStrongest(layer, start) : key,
  };
}

// --- drawing ---

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

function formatPlain(number) {
  if (number < 1e-3 || number >= 1e6) return number.toExponential(2);
  return Number(number.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 });
}

const computeShare = (one, all) => computeDotProduct(one, all) / computeDotProduct(all, all);

function drawSteps(layer, { h, n, j }, found) {
  const { scale, size, width } = layer;
  const [q, k, v] = [getVector(layer, 0, h, n), getVector(layer, 1, h, j), getVector(layer, 2, h, j)];
  const [terms, handed] = [computeProducts(q, k), v.map((value) => value * found.weights[j])];
  const both = Math.max(findLargest(q), findLargest(k));
  const output = findLargest(found.output);
  const [query, key] = [n, j].map((token) => layer.tokens[token].name);
  const [dot, score] = [formatSigned(found.dots[j]), formatSigned(found.scores[j])];
  const power = formatPlain(Math.exp(found.scores[j]));
  const percent = formatSigned(100 * computeShare(handed, found.output));
  return [
    drawStep(
      "Query and key, number by number",
      drawStrip("query q", q, both),
      drawStrip("key k", k, both),
      drawStrip("products", terms, null),
      `The sum of the products is the dot product q · k = ${dot}.`,
    ),
    drawStep(
      "Scale",
      `The dot product divided by √${width}, the square root of the head's width, is the score: ${dot} × ${
        scale.toFixed(4)
      } = ${score}.`,
    ),
    drawStep(
      "Softmax",
      `e to the power of the score, divided by the sum over all ${size} keys: ${power} / ${
        formatPlain(found.total)
      } = `,
      markup`<b class="weight">${formatPercent(found.weights[j])}</b>`,
      `This is the attention weight from the ${query} to the ${key}.`,
    ),
    drawStep(
      "Values, weighted and added",
      drawStrip("value v", v, null),
      drawStrip("weight × v", handed, output),
      drawStrip("sum of all", found.output, output),
      `The sum over all ${size} tokens is the output of this head for the ${query}. This key contributes ${percent}% of the output, measured along the direction of the output.`,
    ),
  ];
}

function drawStrongest({ tokens }, n, weights) {
  const order = weights.map((_, i) => i).sort((a, b) => weights[b] - weights[a]);
  const drawKey = (i) => markup`<li><span>${tokens[i].name}</span><b>${formatPercent(weights[i])}</b></li>`;
  return markup`<ol class="strongest"><li><strong>Keys with the largest weights for the ${
    tokens[n].name
  }</strong></li>${order.slice(0, STRONGEST).map(drawKey)}</ol>`;
}

// The patch that receives most attention in a head, and the content of its value vector.
function drawSink({ sinks, prefix, photos, tokens }, h) {
  const { patches, weights, norm_ratios, similarities, patch_similarities } = sinks;
  const rows = [
    [
      tokens[prefix.length + patches[h]].name,
      formatPercent(weights[h]),
      "Mean attention of all queries to this patch",
    ],
    [
      "norm of its value",
      `× ${norm_ratios[h].toFixed(2)}`,
      "Divided by the mean norm of all patches' values",
    ],
  ];
  if (photos > 1) {
    rows.push(
      [
        `similarity between ${photos} photos`,
        formatSigned(similarities[h]),
        "Mean cosine similarity of the value of the most attended patch between the example photos",
      ],
      [
        "similarity of all patches",
        formatSigned(patch_similarities[h]),
        "Mean cosine similarity of the values of all patches between the example photos",
      ],
    );
  }
  return markup`<ol class="strongest sink"><li><strong>Most attended patch of all queries</strong></li>${
    rows.map(([name, value, help]) => markup`<li title=${help}><span>${name}</span><b>${value}</b></li>`)
  }</ol>`;
}

function drawNumbers({ tokens }, { dots, scores, weights }) {
  const rows = weights.map((weight, i) => [
    tokens[i].name,
    formatSigned(dots[i], 4),
    formatSigned(scores[i], 4),
    (100 * weight).toFixed(4),
  ]);
  const columns = ["key token", "q · k", "score", "weight, %"];
  return drawFoldedTable("Attention weights of the query token", columns, rows);
}

function drawChoices({ heads, tokens }, { h, n, j }) {
  const names = tokens.map(({ code, name }) => [code, name]);
  return markup`<div class="choices">
    <label>Head ${
    drawSelect(HEAD, makeRange(heads, (i) => [i + 1, String(i + 1)]), h + 1, "head")
  }</label><label>Query token ${drawSelect(QUERY, names, tokens[n].code, "query")}</label><label>Key token ${
    drawSelect(KEY, names, tokens[j].code, "key")
  }</label>
  </div>`;
}

function create(element) {
  let layer = null;
  let pointed = null; // the key under the pointer; null: the chosen key

  function point(key) {
    pointed = key;
    draw();
  }

  function drawMap({ run, seen, grid, prefix, tokens }) {
    const findToken = (event) => prefix.length + findPatch(event.currentTarget, grid, event);
    const move = (event) => point(findToken(event));
    const click = (event) => store.set({ [QUERY]: tokens[findToken(event)].code });
    return markup`<div class="map" @pointermove=${move} @pointerleave=${() => point(null)} @click=${click}>
      <img src=${seen.url} alt="Input image of ${run} with the attention weights of the chosen query"><canvas></canvas>
      <i class="ring query"></i><i class="ring key"></i>
    </div>`;
  }

  function draw() {
    const chosen = findChoices(layer, store.state);
    const shown = { ...chosen, j: pointed ?? chosen.j };
    const found = computeHead(layer, chosen.h, chosen.n);
    const { grid, heads, layer: number, prefix, width } = layer;
    render(
      markup`${
        drawCaption(
          `Layer ${number}: ${heads} heads, whose queries, keys and values have ${width} numbers per token.`,
        )
      }${drawChoices(layer, chosen)}
        <div class="both">
          <figure>${drawMap(layer)}<figcaption>Attention weights of the query token</figcaption>${
        drawStrongest(layer, chosen.n, found.weights)
      }${drawSink(layer, chosen.h)}</figure>
          <ol class="steps" aria-live="polite">${drawSteps(layer, shown, found)}</ol>
        </div>
        <div class="numbers">${drawNumbers(layer, found)}</div>`,
      element,
    );
    drawValues(element.querySelector(".map canvas"), found.weights.slice(prefix.length), grid);
    for (const [name, token] of [["query", shown.n], ["key", shown.j]]) {
      placeRing(element.querySelector(`.ring.${name}`), grid, token - prefix.length);
    }
  }

  return createFileView(element, ({ numbers }) => numbers, (data, file) => {
    if (data !== layer?.data) [layer, pointed] = [makeLayer(data, file), null];
    draw();
  });
}

store.define("one_head", { skeleton: "figures", follows: [HEAD, QUERY, KEY], create });
