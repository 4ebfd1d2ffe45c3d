// Several maps next to each other, each over the model's input image.
const { grid, largest, make, paint, ramp, received, saveOver } = vitdemo;
const part = (name) => element.querySelector("." + name);

function numbers({ grid: [rows, columns], values, fraction }) {
  const unit = fraction ? 1 : largest(values) || 1;
  const counted = (count) => Array.from({ length: count }, (_, i) => i + 1);
  const cells = Array.from(values, (value) => ({ text: ((100 * value) / unit).toFixed(1) }));
  return grid({
    caption: fraction ? "In percent." : "In percent of the largest absolute value.",
    corner: "",
    columns: counted(columns).map((text) => ({ text })),
    rows: counted(rows).map((name) => ({ name, cells: cells.slice((name - 1) * columns, name * columns) })),
  });
}

function figure(panel) {
  const canvas = make("canvas");
  const image = make("img", { src: panel.seen.url, alt: panel.alt });
  paint(canvas, panel.values, panel.grid, { signed: panel.signed });
  const overlay = make("div", { className: "vd-overlay" }, image, canvas);
  const save = make("button", { type: "button", text: "PNG", "aria-label": `Save as PNG: ${panel.alt}` });
  save.addEventListener("click", () => saveOver(image, [canvas], overlay.getBoundingClientRect(), panel.alt));
  const more = make("details", {}, make("summary", { text: "Numbers" }));
  more.addEventListener("toggle", () => more.childElementCount === 1 && more.append(numbers(panel)));
  const title = make("strong", { text: panel.title });
  if (panel.badge) title.append(make("span", { className: "badge", text: panel.badge, title: panel.badge_title }));
  const caption = make("figcaption", {}, title, ...panel.lines.map((text) => make("p", { text })),
    panel.caption ? make("p", { className: "quiet", text: panel.caption }) : null, make("div", { className: "tools" }, save, more));
  return make("figure", {}, panel.head ? make("h3", { text: panel.head }) : null, overlay, caption);
}

function draw() {
  const { sentence = "", intro = "", panels = [], ends } = received(props) || {};
  part("sentence").textContent = sentence;
  part("sentence").hidden = !sentence;
  part("intro").textContent = intro;
  part("panels").replaceChildren(...panels.map(figure));
  const legend = (signed, from, to) => make("span", {}, from, make("i", { style: `background: ${ramp(signed)}` }), to);
  const legends = [];
  if (panels.some((panel) => !panel.signed)) legends.push(legend(false, "0", "the map's own maximum"));
  if (panels.some((panel) => panel.signed)) legends.push(legend(true, ...ends));
  part("legends").replaceChildren(...legends);
}
watch("value", draw);
draw();
