// One head, number by number: all results follow from the queries, keys and values of one layer.
// Another head, query or key is computed here; another layer needs one request.
import { caption, folded, signed } from "../../../components/grid.js";
import { floats, matrices } from "../../../components/matrices.js";
import { largest, make, notice, paint, percent, redraw } from "../../../components/shared.js";
import * as store from "../../../store.js";
import { fill, TEXTS } from "../../../texts.js";

const texts = TEXTS.one_head;
const STRONGEST = 5;
let place = null; // the element of the view
let layer = null; // {value (the payload), numbers, size (N), width (D/H), heads}
let asked = 0;
let choices = null; // the three <select> elements {head, query, key}
let pointed = null; // the key under the pointer; null: the chosen key
let chosenFor = ""; // run and sizes for which the choices are valid
const part = (name) => place.querySelector("." + name);

const vector = (which, h, n) => {
  const { numbers, size, width, heads } = layer;
  const at = ((which * heads + h) * size + n) * width;
  return numbers.subarray(at, at + width);
};
const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
const product = (a, b) => a.map((value, i) => value * b[i]);

function nameOf(n) {
  const { prefix, grid: [, columns] } = layer.value;
  if (n < prefix.length) return prefix[n];
  const p = n - prefix.length;
  return fill(texts.patch, { row: Math.floor(p / columns) + 1, column: (p % columns) + 1 });
}

// Dot products, scores and weights (N) of one query, and the head's output for its token.
function worked(h, n) {
  const q = vector(0, h, n);
  const dots = Array.from({ length: layer.size }, (_, j) => dot(q, vector(1, h, j)));
  const scores = dots.map((value) => value * layer.value.scale);
  const top = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - top));
  const total = powers.reduce((sum, value) => sum + value, 0);
  const weights = powers.map((value) => value / total);
  const output = new Float32Array(layer.width);
  weights.forEach((weight, j) =>
    vector(2, h, j).forEach((value, i) => {
      output[i] += weight * value;
    })
  );
  return { dots, scores, weights, output, total: total * Math.exp(top) };
}

function strip(name, values, limit) {
  const label = fill(texts.strip, {
    name,
    count: values.length,
    low: signed(Math.min(...values)),
    high: signed(Math.max(...values)),
  });
  const drawn = make("canvas", { role: "img", "aria-label": label });
  paint(drawn, values, [1, values.length], { top: limit, signed: true });
  drawn.addEventListener("pointermove", (event) => {
    const i = Math.min(Math.floor((event.offsetX / drawn.clientWidth) * values.length), values.length - 1);
    drawn.title = fill(texts.number, { number: i + 1, value: signed(values[i], 4) });
  });
  return make("div", { className: "strip" }, make("span", { text: name }), drawn);
}

const step = (title, ...content) =>
  make(
    "li",
    {},
    make("strong", { text: title }),
    ...content.map((each) => (typeof each === "string" ? make("div", { text: each }) : each)),
  );

function steps(h, n, j, found) {
  const [q, k, v] = [vector(0, h, n), vector(1, h, j), vector(2, h, j)];
  const [terms, handed] = [product(q, k), v.map((value) => value * found.weights[j])];
  const both = Math.max(largest(q), largest(k));
  const output = largest(found.output);
  const values = {
    count: layer.size,
    width: layer.width,
    query: nameOf(n),
    key: nameOf(j),
    dot: signed(found.dots[j]),
    factor: layer.value.scale.toFixed(4),
    score: signed(found.scores[j]),
    power: plain(Math.exp(found.scores[j])),
    total: plain(found.total),
    percent: signed(100 * share(handed, found.output)),
  };
  const weight = make("b", { className: "weight", text: percent(found.weights[j]) });
  const say = (text) => fill(text, values);
  return [
    step(
      texts.product_title,
      strip(texts.query_vector, q, both),
      strip(texts.key_vector, k, both),
      strip(texts.products, terms, null),
      say(texts.product),
    ),
    step(texts.scale_title, say(texts.scale)),
    step(texts.softmax_title, say(texts.softmax), weight, say(texts.weight)),
    step(
      texts.values_title,
      strip(texts.value_vector, v, null),
      strip(texts.weighted, handed, output),
      strip(texts.sum, found.output, output),
      say(texts.output),
    ),
  ];
}

const plain = (
  number,
) => (number >= 1e-3 && number < 1e6
  ? Number(number.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 })
  : number.toExponential(2));
const share = (one, all) => dot(one, all) / dot(all, all);

function ring(name, n) {
  const mark = part(`ring.${name}`);
  const p = n - layer.value.prefix.length;
  mark.hidden = p < 0;
  if (p < 0) return;
  const [rows, columns] = layer.value.grid;
  mark.style.cssText = `top: ${(100 * Math.floor(p / columns)) / rows}%; left: ${
    (100 * (p % columns)) / columns
  }%; width: ${100 / columns}%; height: ${100 / rows}%`;
}

function draw() {
  const [h, n] = [Number(choices.head.value), Number(choices.query.value)];
  const j = pointed ?? Number(choices.key.value);
  const found = worked(h, n);
  const prefix = layer.value.prefix.length;
  paint(part("map canvas"), found.weights.slice(prefix), layer.value.grid);
  ring("query", n);
  ring("key", j);
  part("steps").replaceChildren(...steps(h, n, j, found));
  const order = found.weights.map((_, i) => i).sort((a, b) => found.weights[b] - found.weights[a]).slice(
    0,
    STRONGEST,
  );
  part("strongest").replaceChildren(
    make("li", {}, make("strong", { text: fill(texts.strongest, { query: nameOf(n) }) })),
    ...order.map((i) =>
      make("li", {}, make("span", { text: nameOf(i) }), make("b", { text: percent(found.weights[i]) }))
    ),
  );
  if (pointed !== null) return; // the table follows the chosen key, not the pointer
  const rows = found.weights.map((
    weight,
    i,
  ) => [nameOf(i), signed(found.dots[i], 4), signed(found.scores[i], 4), (100 * weight).toFixed(4)]);
  redraw(
    part("numbers"),
    folded(
      texts.numbers,
      [texts.key_column, texts.dot_column, texts.score_column, texts.weight_column],
      rows,
    ),
  );
}

function point(key) {
  pointed = key;
  draw();
}

function patchAt(event) {
  const box = part("map").getBoundingClientRect();
  const [rows, columns] = layer.value.grid;
  const at = (share, count) => Math.min(Math.max(Math.floor(share * count), 0), count - 1);
  const row = at((event.clientY - box.top) / box.height, rows);
  return layer.value.prefix.length + row * columns + at((event.clientX - box.left) / box.width, columns);
}

// Return the patch with the largest attention weight of a query in the first head.
function strongest(n) {
  const { weights } = worked(0, n);
  const patches = weights.slice(layer.value.prefix.length);
  return weights.length - patches.length + patches.indexOf(Math.max(...patches));
}

// Offer all heads and tokens. For the same model, keep the user's choices.
function offer({ run, heads, prefix, grid: [rows, columns] }) {
  const asking = prefix.length ? 0 : Math.floor(rows / 2) * columns + Math.floor(columns / 2);
  const names = { head: (i) => String(i + 1), query: nameOf, key: nameOf };
  const first = { head: 0, query: asking, key: strongest(asking) };
  const isSame = chosenFor === `${run} ${heads} ${layer.size}`;
  chosenFor = `${run} ${heads} ${layer.size}`;
  choices = Object.fromEntries(
    Object.entries(names).map(([name, label]) => {
      const options = Array.from(
        { length: name === "head" ? heads : layer.size },
        (_, i) => make("option", { value: String(i), text: label(i) }),
      );
      const select = make("select", { className: `vd-select ${name}` }, ...options);
      select.value = isSame ? choices[name].value : String(first[name]);
      select.addEventListener("change", () => point(null));
      return [name, select];
    }),
  );
}

function map({ run, seen }) {
  const drawn = make(
    "div",
    { className: "map" },
    make("img", { src: seen.url, alt: fill(texts.image, { run }) }),
    make("canvas"),
    make("i", { className: "ring query" }),
    make("i", { className: "ring key" }),
  );
  drawn.addEventListener("pointermove", (event) => point(patchAt(event)));
  drawn.addEventListener("pointerleave", () => point(null));
  drawn.addEventListener("click", (event) => {
    choices.query.value = String(patchAt(event));
    draw();
  });
  return drawn;
}

function build(value) {
  offer(value);
  const figure = make(
    "figure",
    {},
    map(value),
    make("figcaption", { text: texts.map }),
    make("ol", { className: "strongest" }),
  );
  const numbers = make("div", { className: "numbers" }, ...place.querySelectorAll(".numbers > *")); // an open fold stays open
  place.replaceChildren(
    caption(value.words),
    make(
      "div",
      { className: "choices" },
      make("label", {}, `${texts.head} `, choices.head),
      make("label", {}, `${texts.query} `, choices.query),
      make("label", {}, `${texts.key} `, choices.key),
    ),
    make("div", { className: "both" }, figure, make("ol", { className: "steps", "aria-live": "polite" })),
    numbers,
  );
}

async function load(element, value) {
  const mine = ++asked;
  try {
    const file = await matrices(value.numbers.url);
    if (mine !== asked) return; // another layer has arrived in the meantime
    place = element;
    layer = { value, numbers: floats(file), size: file.rows, width: file.columns, heads: file.maps };
    pointed = null;
    build(value);
    draw();
  } catch (error) {
    if (mine === asked) showError(element, error.message);
  }
}

function showError(element, message) {
  asked += 1; // a file that is still loading is out of date
  element.replaceChildren(notice(message));
}

store.define("one_head", {
  skeleton: "figures",
  needs: ["image", "model", "layer"],
  render: load,
  showError,
});
