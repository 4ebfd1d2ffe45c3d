// Predictions after each layer, and the class of each patch after the chosen layer. A change of the
// layer needs no request.
(() => {
const { caption, folded, fromHex, grid, make, painted, probability, redraw, shade } = vitdemo;
const after = (layer) => (layer ? `After layer ${layer}` : "Before the first layer");
let drawnLayer = null;

function strip({ answers, classes }, layer, choose) {
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

let isBeforeFirst = false; // whether the embedding is shown, for which the page's slider has no place

vitdemo.store.define("logit_lens", {
  needs: ["image", "model"],
  follows: ["layer"],
  render(element, value, state) {
    const choose = (layer) => {
      if (layer) vitdemo.store.chooseLayer(layer);
      isBeforeFirst = !layer;
      this.render(element, value, vitdemo.store.state);
    };
    if (state.layer !== drawnLayer) isBeforeFirst = false;
    drawnLayer = state.layer;
    const last = value.answers.length - 1;
    const layer = isBeforeFirst ? 0 : Math.min(state.layer || last, last);
    redraw(element, caption(value.words[0], "Approximate"), strip(value, layer, choose), patches(value, layer));
  },
});
})();
