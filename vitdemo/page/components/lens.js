// Predictions after each layer, and the class of each patch after the chosen layer. Choosing a layer
// needs no request: it moves the tab's slider (event "layer") and follows it.
const { caption, folded, fromHex, grid, make, notice, painted, probability, received, redraw, shade } = vitdemo;
const place = element.querySelector(".lens");
const after = (layer) => (layer ? `After layer ${layer}` : "Before the first layer");
let moved = null; // the layer chosen since the page opened; the slider has no place for layer 0

function choose(layer) {
  moved = layer;
  draw();
  if (!layer) return;
  vitdemo.layer = layer;
  trigger("layer");
}

function strip({ answers, classes }, layer) {
  const columns = answers.map((_, i) => ({ text: i, label: `${after(i)}: show the classes of the patches`, pick: String(i), pressed: i === layer }));
  const cell = (share, name, i) => ({ text: (100 * share).toFixed(0), label: `${after(i)}: ${name} ${probability(share)}`, rgb: shade(share, false) });
  const rows = classes.map((name, c) => ({ name, cells: answers.map((shares, i) => cell(shares[c], name, i)) }));
  return grid({ caption: "Probability of each class after each layer, in percent", corner: "layer", columns, rows, look: "vd-strip" }, (pick) => choose(Number(pick)));
}

function patches(value, layer) {
  const [rows, columns] = value.grid;
  const [predicted, shares] = [value.predicted[layer].map((c) => value.named[c]), value.shares[layer]];
  const lines = (each) => Array.from({ length: rows }, (_, i) => Array.from({ length: columns }, (_, j) => each(i * columns + j, i + 1, j + 1)));
  const cell = (p, row, column) => ({ text: predicted[p].short, rgb: fromHex(predicted[p].colour),
    label: `Row ${row}, column ${column}: ${predicted[p].name} ${probability(shares[p])}` });
  const map = grid({ caption: `Predicted class of each patch, ${after(layer).toLowerCase()}`, rows: lines(cell).map((cells) => ({ cells })), look: "vd-patches" });
  map.style.setProperty("--columns", columns);
  const seen = make("div", { className: "seen", style: `--rows: ${rows}; --columns: ${columns}` },
    make("img", { src: value.seen.url, alt: `The input image of ${value.run}, divided into patches` }));
  const figure = make("figure", {}, seen, make("figcaption", { text: `Input image of ${value.run}` }));
  const counts = new Map();
  for (const each of predicted) counts.set(each, (counts.get(each) ?? 0) + 1);
  const legend = [...counts].sort(([, a], [, b]) => b - a).map(([{ name, short, colour }, count]) =>
    make("li", {}, make("i", { text: short, style: painted(fromHex(colour)) }), ` ${name}: ${count} of ${rows * columns}`));
  const numbers = lines((p) => `${predicted[p].name} ${(100 * shares[p]).toFixed(1)}`).map((line, i) => [String(i + 1), ...line]);
  const head = ["row", ...Array.from({ length: columns }, (_, j) => String(j + 1))];
  return make("div", { id: "lens-patches" }, caption(value.words[1], "Approximate"), make("div", { className: "vd-pair" }, figure, map),
    make("ul", { className: "classes" }, ...legend), folded("Numbers: class and probability of each patch, in percent", head, numbers));
}

function draw() {
  const value = received(props) || {};
  if (!value.answers) return place.replaceChildren(...(value.sentence ? [notice(value.sentence)] : []));
  const layer = Math.min(moved ?? value.layer, value.answers.length - 1);
  redraw(place, caption(value.words[0], "Approximate"), strip(value, layer), patches(value, layer));
}

document.addEventListener("vitdemo:layer", function follow({ detail }) {
  if (!element.isConnected) return document.removeEventListener("vitdemo:layer", follow);
  if (Number(detail) === moved) return;
  moved = Number(detail);
  draw();
});
watch("value", draw);
draw();
