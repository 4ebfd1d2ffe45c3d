// Contributions of each part of the model to a logit, or to the difference of two logits: bars in
// the order of the model, single heads, and the norm of the tokens after each layer.
(() => {
const { caption, fill, folded, grid, largest, make, redraw, scale, shade, signed } = vitdemo;
const texts = vitdemo.texts.residual_stream;
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
  const rows = [{ name: texts.embedding, value: embedding }];
  attention.forEach((each, l) => rows.push({ name: fill(texts.attention, { layer: l + 1 }), value: each }, { name: fill(texts.mlp, { layer: l + 1 }), value: mlps[l] }));
  rows.push({ name: texts.biases, value: constant }, { name: texts.total, value: logit, whole: true });
  const name = fill(against === NONE ? texts.logit : texts.difference, { name: value.classes[k], other: value.classes[Number(against)] ?? "" });
  const limit = largest(heads.flat());
  const cells = heads.map((line, l) => ({ name: fill(texts.row, { layer: l + 1 }), cells: line.map((each, h) => ({
    text: signed(each), label: fill(texts.head, { layer: l + 1, head: h + 1, value: signed(each), logit: name }), rgb: shade((each / (limit || 1) + 1) / 2) })) }));
  const byHead = make("div", { className: "heads" },
    grid({ caption: fill(texts.heads, { logit: name }), corner: "", columns: heads[0].map((_, h) => ({ text: h + 1 })), rows: cells }),
    scale(signed(-limit), signed(limit), texts.scale));
  const numbers = value.lengths.map(([answer, patch], l) => [l ? fill(texts.after, { layer: l }) : texts.before, answer.toFixed(2), patch.toFixed(2)]);
  redraw(place,
    make("p", { className: "sum", text: fill(texts.sum, { logit: name, value: signed(logit) }) }),
    make("div", { className: "parts" }, ...bars(rows)),
    byHead,
    folded(texts.numbers, [texts.part, texts.contribution], rows.map((row) => [row.name, signed(row.value, 4)])),
    folded(texts.norms, [texts.place, value.read, texts.patches], numbers));
}

function less(a, b) {
  return Array.isArray(a) ? a.map((each, i) => less(each, b[i])) : a - b;
}

function render(element, value) {
  const options = value.classes.map((text, i) => ({ value: String(i), text }));
  const choice = (name, choices) => make("select", { className: `vd-select ${name}` }, ...choices.map((each) => make("option", each)));
  const target = choice("target", options);
  const other = choice("other", [{ value: NONE, text: texts.nothing }, ...options]);
  const results = make("div");
  const update = () => draw(results, value, Number(target.value), other.value);
  for (const select of [target, other]) select.addEventListener("change", update);
  element.replaceChildren(caption(value.words), make("label", {}, `${texts.target} `, target), " ", make("label", {}, `${texts.minus} `, other), results);
  update();
}

vitdemo.store.define("residual_stream", { skeleton: "rows", needs: ["image", "model"], render });
})();
