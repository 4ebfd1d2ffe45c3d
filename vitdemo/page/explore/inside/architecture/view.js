// The parts of a model from the image to the prediction, with bars for their sizes. A click on a
// part opens its explanation by clicking the page's own controls.
(() => {
const { caption, fill, folded, make, marked, redraw } = vitdemo;
const texts = vitdemo.texts.architecture;
const number = (value) => value.toLocaleString("en");
const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.001 ? 2 : share ? 1 : 0)}%`;

function open({ part, section }) {
  if (part) document.querySelector(`#part input[value="${part}"]`)?.click();
  else document.querySelector(`#sections [data-tab-id="${section}"]`)?.click();
}

function box(each, value) {
  const share = (name) => each[name] / (value[name] || 1);
  const sizes = make("span", { className: "share" },
    make("i", { style: `width: ${100 * share("parameters")}%` }), fill(texts.share_of_parameters, { percent: percent(share("parameters")) }),
    make("i", { className: "macs", style: `width: ${100 * share("macs")}%` }), fill(texts.share_of_macs, { percent: percent(share("macs")) }));
  const content = [make("strong", { text: each.title }), make("small", {}, ...marked(each.description)), each.link ? make("u", { text: fill(texts.open, { title: each.link.title }) }) : null, sizes];
  if (!each.link) return make("div", { className: "part" }, ...content.filter(Boolean));
  const button = make("button", { type: "button", "data-pick": each.title }, ...content);
  button.addEventListener("click", () => open(each.link));
  return button;
}

function draw(place, value) {
  const item = (each) => make("li", {}, box(each, value));
  const repeated = value.parts.filter(({ repeats }) => repeats > 1);
  const block = make("li", {}, make("div", { className: "block" }, make("p", { text: value.repeated }), make("ol", {}, ...repeated.map(item))));
  const items = value.parts.flatMap((each) => (each.repeats > 1 ? (each === repeated[0] ? [block] : []) : [item(each)]));
  const rows = value.parts.map((each) => [each.title, number(each.parameters), number(each.macs)]);
  rows.push([texts.total, number(value.parameters), number(value.macs)]);
  redraw(place, caption(value.words), make("ol", { className: "flow" }, ...items), folded(texts.numbers, [texts.part, texts.parameters, texts.macs], rows));
}

vitdemo.store.define("architecture", { skeleton: "figures", needs: ["model"], render: draw });
})();
