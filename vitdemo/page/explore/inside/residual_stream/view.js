// Contributions of each part of the model to a logit, or to the difference of two logits: bars in
// the order of the model, single heads, and the norm of the tokens after each layer.
(() => {
const { caption, folded, grid, largest, make, redraw, scale, shade, signed } = vitdemo;
const NONE = "none";

const colour = (value) => `rgb(${shade(value > 0 ? 0.9 : 0.1).join(" ")})`;

function bars(rows) {
  const limit = largest(rows.filter(({ whole }) => !whole).map(({ value }) => value));
  return rows.flatMap(({ name, value, whole }) => {
    const width = Math.min(50 * Math.abs(value) / (limit || 1), 50);
    const fill = make("i", { style: `width: ${width}%; ${value < 0 ? "right" : "left"}: 50%; background: ${colour(value)}` });
    const look = whole ? "whole" : null;
    return [make("span", { text: name, className: look }), whole ? make("span") : make("div", { className: "bar" }, fill), make("b", { text: signed(value), className: look })];
  });
}

// Draw the results below the two choices.
function draw(place, value, k, against) {
  // Contributions to one logit or to the difference of two logits; they add up to the total.
  const of = (numbers) => (against === NONE ? numbers[k] : less(numbers[k], numbers[Number(against)]));
  const [embedding, heads, bias, mlps, constant, logit] = ["embedding", "heads", "bias", "mlps", "constant", "logits"].map((name) => of(value[name]));
  const attention = heads.map((line, l) => line.reduce((sum, each) => sum + each, bias[l]));
  const rows = [{ name: "Embedding", value: embedding }];
  attention.forEach((each, l) => rows.push({ name: `Layer ${l + 1}, attention`, value: each }, { name: `Layer ${l + 1}, MLP`, value: mlps[l] }));
  rows.push({ name: "Biases", value: constant }, { name: "Total", value: logit, whole: true });
  const name = against === NONE ? `the logit of ${value.classes[k]}` : `the logit of ${value.classes[k]} minus the logit of ${value.classes[Number(against)]}`;
  const limit = largest(heads.flat());
  const cells = heads.map((line, l) => ({ name: `layer ${l + 1}`, cells: line.map((each, h) => ({
    text: signed(each), label: `Layer ${l + 1}, head ${h + 1} adds ${signed(each)} to ${name}`, rgb: shade((each / (limit || 1) + 1) / 2) })) }));
  const byHead = make("div", { className: "heads" },
    grid({ caption: `Contribution of each head to ${name}. Columns are heads.`, corner: "", columns: heads[0].map((_, h) => ({ text: h + 1 })), rows: cells }),
    scale(signed(-limit), signed(limit), " (added to the logit)"));
  const numbers = value.lengths.map(([answer, patch], l) => [l ? `after layer ${l}` : "before layer 1", answer.toFixed(2), patch.toFixed(2)]);
  redraw(place,
    make("p", { className: "sum", text: `The parts below add up to ${name}: ${signed(logit)}.` }),
    make("div", { className: "parts" }, ...bars(rows)),
    byHead,
    folded("Numbers: all parts", ["part", "contribution to the logit"], rows.map((row) => [row.name, signed(row.value, 4)])),
    folded("Norm of the residual stream after each layer", ["place", value.read, "patches, mean"], numbers));
}

function less(a, b) {
  return Array.isArray(a) ? a.map((each, i) => less(each, b[i])) : a - b;
}

function render(element, value) {
  const options = value.classes.map((text, i) => ({ value: String(i), text }));
  const choice = (name, choices) => make("select", { className: `vd-select ${name}` }, ...choices.map((each) => make("option", each)));
  const target = choice("target", options);
  const other = choice("other", [{ value: NONE, text: "nothing" }, ...options]);
  const results = make("div");
  const update = () => draw(results, value, Number(target.value), other.value);
  for (const select of [target, other]) select.addEventListener("change", update);
  element.replaceChildren(caption(value.words), make("label", {}, "Logit of ", target), " ", make("label", {}, "minus ", other), results);
  update();
}

vitdemo.store.define("residual_stream", { needs: ["image", "model"], render });
})();
