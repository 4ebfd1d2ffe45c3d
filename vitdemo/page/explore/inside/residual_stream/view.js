// Contributions of each part of the model to a logit, or to the difference of two logits: a waterfall in the order of
// the model, single heads, and the norm of the tokens after each layer.
import { about, caption, folded, grid, scale, signed } from "../../../components/grid.js";
import { largest, make, redraw, shade } from "../../../components/shared.js";
import * as store from "../../../store.js";
import { fill, TEXTS } from "../../../texts.js";

const texts = TEXTS.residual_stream;
const NONE = "none";

const colour = (value) => `rgb(${shade(value > 0 ? 0.84 : 0.16).join(" ")})`;
const isPart = ({ whole }) => !whole;

// The parts as bars from the sum before to the sum after each part. The last bar is the total. Below the bars is a
// sentence about the largest part, or about the part under the pointer or chosen with the arrow keys.
function waterfall(rows, name) {
  let sum = 0;
  const bars = rows.map((row) => ({
    ...row,
    from: row.whole ? 0 : sum,
    to: row.whole ? row.value : (sum += row.value),
  }));
  const ends = bars.flatMap(({ from, to }) => [from, to]);
  const [low, high] = [Math.min(0, ...ends), Math.max(0, ...ends)];
  const place = (value) => (100 * (high - value)) / (high - low || 1); // percent from the top
  const reading = make("p", { className: "reading", role: "status" });
  const columns = bars.map(({ from, to, value, whole, short, kind }) => {
    const style = `top: ${place(Math.max(from, to))}%; height: ${Math.abs(place(from) - place(to))}%; ${
      whole ? "" : `--colour: ${colour(value)}`
    }`;
    const line = whole ? null : make("s", { style: `top: ${place(to)}%` }); // to the next bar
    return make(
      "div",
      { className: `column ${kind}` },
      make("i", { style }),
      line,
      make("small", { text: short }),
    );
  });
  const drawn = make(
    "div",
    { className: "parts", role: "img", tabIndex: 0, "aria-label": fill(texts.waterfall, { logit: name }) },
    make("u", { style: `top: ${place(0)}%` }),
    ...columns,
  );
  drawn.style.setProperty("--count", columns.length);

  const parts = bars.filter(isPart);
  const start = parts.reduce(
    (best, { value }, i) => (Math.abs(value) > Math.abs(parts[best].value) ? i : best),
    0,
  );
  let current = start;
  function read(i) {
    current = i;
    columns.forEach((each, at) => each.classList.toggle("at", at === i));
    const { name: title, value, to, whole } = bars[i];
    reading.textContent = fill(
      whole ? texts.reading_total : i === start ? texts.reading_largest : texts.reading,
      { part: title, value: signed(value), sum: signed(to), logit: name },
    );
  }
  columns.forEach((each, i) => each.addEventListener("pointerenter", () => read(i)));
  drawn.addEventListener("pointerleave", () => read(start));
  drawn.addEventListener("keydown", (event) => {
    const next =
      { ArrowLeft: current - 1, ArrowRight: current + 1, Home: 0, End: bars.length - 1 }[event.key];
    if (bars[next] === undefined) return;
    event.preventDefault();
    read(next);
  });
  read(start);
  const legend = make(
    "p",
    { className: "legend" },
    ...["attention", "mlp"].map((kind) =>
      make(
        "span",
        {},
        make("i", { className: kind }),
        kind === "mlp" ? texts.legend_mlp : texts.legend_attention,
      )
    ),
    make("span", { text: texts.legend_colours }),
  );
  return [reading, drawn, legend];
}

// Draw the results below the two choices.
function draw(place, value, k, against) {
  // Contributions to one logit or to the difference of two logits; they add up to the total.
  const of = (numbers) => (against === NONE ? numbers[k] : less(numbers[k], numbers[Number(against)]));
  const [embedding, heads, bias, mlps, constant, logit] = [
    "embedding",
    "heads",
    "bias",
    "mlps",
    "constant",
    "logits",
  ].map((name) => of(value[name]));
  const attention = heads.map((line, l) => line.reduce((sum, each) => sum + each, bias[l]));
  const rows = [{ name: texts.embedding, short: texts.embedding, kind: "end", value: embedding }];
  attention.forEach((each, l) =>
    rows.push({
      name: fill(texts.attention, { layer: l + 1 }),
      short: String(l + 1),
      kind: "attention",
      value: each,
    }, { name: fill(texts.mlp, { layer: l + 1 }), short: "", kind: "mlp", value: mlps[l] })
  );
  rows.push({ name: texts.biases, short: texts.biases, kind: "end", value: constant }, {
    name: texts.total,
    short: texts.total,
    kind: "end",
    value: logit,
    whole: true,
  });
  const name = fill(against === NONE ? texts.logit : texts.difference, {
    name: value.classes[k],
    other: value.classes[Number(against)] ?? "",
  });
  const limit = largest(heads.flat());
  const cells = heads.map((line, l) => ({
    name: fill(texts.row, { layer: l + 1 }),
    cells: line.map((each, h) => ({
      text: signed(each),
      label: fill(texts.head, { layer: l + 1, head: h + 1, value: signed(each), logit: name }),
      rgb: shade((each / (limit || 1) + 1) / 2),
    })),
  }));
  const byHead = make(
    "div",
    { className: "heads" },
    grid({
      caption: fill(texts.heads, { logit: name }),
      corner: "",
      columns: heads[0].map((_, h) => ({ text: h + 1 })),
      rows: cells,
    }),
    scale(signed(-limit), signed(limit), texts.scale),
  );
  const numbers = value.lengths.map((
    [answer, patch],
    l,
  ) => [l ? fill(texts.after, { layer: l }) : texts.before, answer.toFixed(2), patch.toFixed(2)]);
  redraw(
    place,
    make("p", { className: "sum", text: fill(texts.sum, { logit: name, value: signed(logit) }) }),
    ...waterfall(rows, name),
    byHead,
    folded(
      texts.numbers,
      [texts.part, texts.contribution],
      rows.map((row) => [row.name, signed(row.value, 4)]),
    ),
    folded(texts.norms, [texts.place, value.read, texts.patches], numbers),
  );
}

function less(a, b) {
  return Array.isArray(a) ? a.map((each, i) => less(each, b[i])) : a - b;
}

function render(element, value) {
  const options = value.classes.map((text, i) => ({ value: String(i), text }));
  const choice = (name, choices) =>
    make("select", { className: `vd-select ${name}` }, ...choices.map((each) => make("option", each)));
  const target = choice("target", options);
  const other = choice("other", [{ value: NONE, text: texts.nothing }, ...options]);
  const results = make("div");
  const update = () => draw(results, value, Number(target.value), other.value);
  for (const select of [target, other]) select.addEventListener("change", update);
  element.replaceChildren(
    caption(value.words),
    make("label", {}, `${texts.target} `, target),
    " ",
    make("label", {}, `${texts.minus} `, other),
    results,
    about(value.about),
  );
  update();
}

store.define("residual_stream", { skeleton: "rows", needs: ["image", "model"], render });
