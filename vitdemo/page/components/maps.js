// The block MapRow of a document: maps next to each other, each over the model's input image.
import { fill, TEXTS } from "../texts.js";
import { grid } from "./grid.js";
import { saveMaps } from "./map_files.js";
import { largest, make, paint, ramp } from "./shared.js";

const texts = TEXTS.maps;

function numbers({ values, fraction }) {
  const unit = fraction ? 1 : largest(values.flat()) || 1;
  const cell = (value) => ({ text: ((100 * value) / unit).toFixed(1) });
  return grid({
    caption: fraction ? texts.in_percent : texts.in_percent_of_largest,
    corner: "",
    columns: values[0].map((_, i) => ({ text: i + 1 })),
    rows: values.map((row, i) => ({ name: i + 1, cells: row.map(cell) })),
  });
}

// Buttons that save the map for slides; `ends` are the labels of the colours.
function saveButtons({ alt, caption, head, lines = [], signed, title }, image, canvas, ends) {
  const side = 640;
  const [from, to] = signed ? ends : ["0", texts.own_maximum];
  const figure = () => ({
    title: [head, title].filter(Boolean).join(": "),
    notes: [alt, ...lines, caption].filter(Boolean).map((text) => text.replaceAll("**", "")),
    width: side,
    height: side,
    image,
    cells: [{ canvas, x: 0, y: 0, width: side, height: side }],
    scale: { from, to, signed },
    opacity: Number(getComputedStyle(canvas).opacity),
  });
  const formats = { png: [TEXTS.page.png, TEXTS.page.save_as_png], svg: [texts.svg, texts.save_as_svg] };
  return Object.entries(formats).map(([format, [text, label]]) => {
    const save = make("button", { type: "button", text, "aria-label": fill(label, { name: alt }) });
    save.addEventListener("click", () => saveMaps(figure(), alt, format));
    return save;
  });
}

function figure(panel, ends) {
  const { alt, badge, caption, head, lines, seen, signed, title, values } = panel;
  const canvas = make("canvas");
  const image = make("img", { src: seen.url, alt });
  paint(canvas, values.flat(), [values.length, values[0].length], { signed });
  const overlay = make("div", { className: "vd-overlay" }, image, canvas);
  const more = make("details", {}, make("summary", { text: texts.numbers }));
  more.addEventListener("toggle", () => more.childElementCount === 1 && more.append(numbers(panel)));
  const heading = make("strong", { text: title });
  if (badge) heading.append(make("span", { className: "badge", text: badge, title: panel.badge_title }));
  const words = make(
    "figcaption",
    {},
    heading,
    ...(lines ?? []).map((text) => make("p", { text })),
    caption ? make("p", { className: "quiet", text: caption }) : null,
    make("div", { className: "tools" }, ...saveButtons(panel, image, canvas, ends), more),
  );
  return make("figure", {}, head ? make("h3", { text: head }) : null, overlay, words);
}

export function mapRow({ colour_labels: ends, intro, panels = [], sentence }) {
  const legend = (signed, from, to) =>
    make("span", {}, from, make("i", { style: `background: ${ramp(signed)}` }), to);
  const legends = [];
  if (panels.some((panel) => !panel.signed)) legends.push(legend(false, "0", texts.own_maximum));
  if (panels.some((panel) => panel.signed)) legends.push(legend(true, ...ends));
  return make(
    "div",
    { className: "vd-maps" },
    sentence ? make("p", { className: "vd-notice sentence", role: "status", text: sentence }) : null,
    intro ? make("p", { className: "intro", text: intro }) : null,
    make("div", { className: "panels" }, ...panels.map((panel) => figure(panel, ends))),
    make("div", { className: "legends" }, ...legends),
  );
}
