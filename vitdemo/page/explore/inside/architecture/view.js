// The parts of a model from the image to the prediction, drawn with the results of this image. A click on a part opens
// its explanation by clicking the page's own controls.
import { caption, folded, signed } from "../../../components/grid.js";
import { largest, make, marked, paint, probability, redraw, shade } from "../../../components/shared.js";
import * as store from "../../../store.js";
import { fill, TEXTS } from "../../../texts.js";

const texts = TEXTS.architecture;
const number = (value) => value.toLocaleString("en");

function open({ part, section }) {
  if (part) document.querySelector(`#part input[value="${part}"]`)?.click();
  else document.querySelector(`#sections [data-tab-id="${section}"]`)?.click();
}

// A box with a drawing (or null), a title and a description; a button if it has a link.
function box({ title, description, link }, drawing = null) {
  const words = make(
    "span",
    { className: "words" },
    make("strong", { text: title }),
    make("small", {}, ...marked(description)),
    " ",
    link ? make("u", { text: fill(texts.open, { title: link.title }) }) : null,
  );
  const content = drawing?.className === "strip" ? [words, drawing] : [drawing, words];
  if (!link) return make("div", { className: "part" }, ...content);
  const button = make("button", { type: "button", className: "part", "data-pick": title }, ...content);
  button.addEventListener("click", () => open(link));
  return button;
}

const image = ({ seen }) => make("img", { src: seen.url, alt: "" });
const columns = (values) =>
  make("span", { className: "strip", style: `--columns: ${values.length}` }, ...values);

function patches(value) {
  const [rows, count] = value.steps.grid;
  return make(
    "span",
    { className: "drawing cut", style: `--rows: ${rows}; --columns: ${count}` },
    image(value),
  );
}

function heat(values) {
  const canvas = make("canvas", { className: "drawing" });
  paint(canvas, values.flat(), [values.length, values[0].length]);
  return canvas;
}

function maps(value) {
  return columns(value.steps.maps.map((values, i) => {
    const canvas = make("canvas");
    paint(canvas, values.flat(), [values.length, values[0].length]);
    return make(
      "span",
      { className: "vd-overlay", title: fill(texts.map, { layer: i + 1 }) },
      image(value),
      canvas,
    );
  }));
}

function contributions({ steps, answers }) {
  const limit = largest(steps.contributions);
  return columns(steps.contributions.map((each, i) => {
    const size = (50 * Math.abs(each)) / (limit || 1);
    const style = `height: ${size}%; ${each < 0 ? "top" : "bottom"}: 50%; background: rgb(${
      shade(each > 0 ? 0.84 : 0.16).join(" ")
    })`;
    return make(
      "span",
      {
        className: "signed",
        title: fill(texts.contribution, { layer: i + 1, value: signed(each), name: answers[0][0] }),
      },
      make("i", { style }),
      make("b", { text: signed(each, 1) }),
    );
  }));
}

function lens({ steps, answers }) {
  return columns(
    steps.probabilities.map((each, i) =>
      make(
        "span",
        {
          className: "rising",
          title: fill(texts.probability, {
            layer: i + 1,
            name: answers[0][0],
            probability: probability(each),
          }),
        },
        make("i", { style: `height: ${100 * each}%` }),
        make("b", { text: (100 * each).toFixed(0) }),
      )
    ),
  );
}

// The layers: their parts, and what each layer adds to the prediction.
function layers(value) {
  const { answers, parts, repeated, steps } = value;
  const [attention, ...others] = parts.filter(({ repeats }) => repeats > 1);
  const name = answers[0]?.[0];
  const residual = {
    title: texts.residual,
    description: fill(texts.residual_words, { name: name ?? "" }),
    link: { title: texts.residual, part: "residual_stream" },
  };
  const reading = {
    title: texts.lens,
    description: fill(texts.lens_words, { name: name ?? "" }),
    link: { title: texts.lens, part: "lens" },
  };
  return make(
    "div",
    { className: "layers" },
    make(
      "p",
      {},
      make("span", { text: repeated }),
      columns(steps.maps.map((_, i) => make("b", { text: i + 1 }))),
    ),
    box(attention, maps(value)),
    ...others.map((part) => box(part)),
    steps.contributions.length ? box(residual, contributions(value)) : null,
    steps.probabilities.length ? box(reading, lens(value)) : null,
  );
}

function prediction({ answers }) {
  const rows = answers.map(([name, share]) =>
    make(
      "span",
      { className: "answer" },
      make("span", { text: name }),
      make("i", { style: `width: ${100 * share}%` }),
      make("b", { text: probability(share) }),
    )
  );
  return make(
    "div",
    { className: "part" },
    make("span", { className: "words" }, make("strong", { text: texts.prediction }), ...rows),
  );
}

const row = (...boxes) => make("li", {}, make("ol", {}, ...boxes.map((each) => make("li", {}, each))));

function transformer(value) {
  const drawings = { patches: patches(value), stem: patches(value), tokens: heat(value.steps.norms) };
  const first = value.parts.filter(({ kind }) => kind in drawings).map((part) =>
    box(part, drawings[part.kind])
  );
  const last = value.parts.filter(({ kind, repeats }) => repeats === 1 && !(kind in drawings)).map((part) =>
    box(part)
  );
  return [
    row(input(value), ...first),
    make("li", {}, layers(value)),
    row(...last, ...(value.answers.length ? [prediction(value)] : [])),
  ];
}

const input = (value) =>
  box(
    { title: texts.image, description: fill(texts.image_words, { side: value.size }) },
    make("span", { className: "drawing" }, image(value)),
  );
const convolutional = (
  value,
) => [row(input(value), ...value.parts.map((part) => box(part)), prediction(value))];

function sizes({ parts }) {
  const total = (name) => parts.reduce((sum, each) => sum + each[name], 0);
  const [parameters, macs] = [total("parameters"), total("macs")];
  const cell = (count, all) => `${number(count)} (${probability(count / (all || 1))})`;
  const rows = parts.map((each) => [each.title, cell(each.parameters, parameters), cell(each.macs, macs)]);
  rows.push([texts.total, number(parameters), number(macs)]);
  return folded(texts.numbers, [texts.part, texts.parameters, texts.macs], rows);
}

function draw(place, value) {
  redraw(
    place,
    caption(value.words),
    make("ol", { className: "flow" }, ...(value.steps ? transformer : convolutional)(value)),
    sizes(value),
  );
}

store.define("architecture", { skeleton: "figures", needs: ["image", "model"], render: draw });
