// Test images as buttons with the models' predictions, or a table if the images are not available.
// A click opens an image in Explore. The payload is described in vitdemo/page/gallery.py.
import { isMissingDataset } from "../data/download/view.js";
import * as store from "../store.js";
import { fill, fillPlural, TEXTS } from "../texts.js";
import { make, notice, probability, rove } from "./shared.js";
import { table } from "./table.js";

const texts = TEXTS.gallery;
const number = new Intl.NumberFormat("en");

// Define the state of a gallery: its page, from 1, and whether it shows the predictions of all models.
// A change of `filters` leads back to the first page, unless the same change chooses a page.
export function defineGallery(prefix, filters) {
  const { defineParam, set, watch } = store;
  const page = `${prefix}.page`;
  defineParam(page, { start: 1, parse: (text) => (/^[1-9]\d{0,4}$/.test(text) ? Number(text) : undefined) });
  defineParam(`${prefix}.all_models`, {
    start: false,
    parse: (text) => ({ true: true, false: false })[text],
  });
  watch(filters, (_, changes) => {
    if (!(page in changes)) set({ [page]: 1 });
  });
}

// Number of images and the visible range; screen readers read it out when it changes.
function head({ count, start, page, sentence }) {
  const images = count ? fillPlural(texts, "images", count) : texts.no_image;
  if (isMissingDataset(sentence)) return [images];
  const [first, last] = [start + 1, Math.min(start + page, count)].map(number.format);
  const words = count > page ? fill(texts.range, { images, first, last }) : images;
  return [words, make("small", { text: count ? texts.captions : "" })];
}

function button(picture, at, value, names) {
  const { true: truth, answers } = picture;
  const [predicted, confidence] = answers[value.models.indexOf(value.model)];
  const lines = names.map((name) => {
    const [said, share] = answers[value.models.indexOf(name)];
    return `${name}: ${said}${said === truth ? " ✓" : ""} ${probability(share)}`;
  });
  const rows = Math.ceil(value.pictures.length / value.columns);
  const along = (place, all) => (all > 1 ? (100 * place) / (all - 1) : 0);
  const [x, y] = [along(at % value.columns, value.columns), along(Math.floor(at / value.columns), rows)];
  const style = `background-image: url("${value.sheet.url}"); background-size: ${100 * value.columns}% ${
    100 * rows
  }%; background-position: ${x}% ${y}%`;
  const spoken = fill(predicted === truth ? texts.spoken_correct : texts.spoken_wrong, {
    number: picture.number,
    truth,
    predicted,
    model: value.model,
    confidence: probability(confidence),
  });
  const made = make(
    "button",
    { type: "button", "aria-label": [spoken, ...lines, texts.open].join(". "), "data-pick": picture.number },
    make("span", { className: "thumb", style, title: fill(texts.test_image, { number: picture.number }) }),
    make("b", { text: predicted === truth ? `${truth} ✓` : `${truth} → ${predicted}` }),
    make("span", { text: probability(confidence) }),
    ...lines.map((text) => make("small", { text })),
  );
  made.addEventListener("click", () => store.openImage({ ...value.opening, image: picture.image }));
  return made;
}

function listed({ model, models, pictures }) {
  const names = [model, ...models.filter((name) => name !== model)];
  const words = ([predicted, share]) => `${predicted} ${probability(share)}`;
  const row = (
    { number, true: truth, answers },
  ) => [number, truth, ...names.map((name) => words(answers[models.indexOf(name)]))];
  return table({ columns: [texts.number_column, texts.true_column, ...names], rows: pictures.map(row) });
}

// Add the gallery of the state keys `prefix` to `place`. Return a function that draws a payload; null hides the gallery.
export function galleryIn(place, prefix) {
  const found = make("p", { className: "found", role: "status" });
  const all = make("input", { type: "checkbox" });
  const wanted = make("label", { className: "wanted" }, all, ` ${texts.all_models}`);
  const pictures = make("div", { role: "group", "aria-label": texts.label });
  const turn = (className, text) => make("button", { type: "button", className, text });
  const [earlier, later] = [turn("earlier", texts.previous), turn("later", texts.next)];
  const turns = make("div", { className: "turns" }, earlier, later);
  const gallery = make(
    "div",
    { className: "vd-gallery", hidden: true },
    make("div", { className: "top" }, found, wanted),
    pictures,
    turns,
  );
  const buttons = () => [...pictures.querySelectorAll("button")];
  const columns = () => getComputedStyle(pictures).gridTemplateColumns.split(" ").length;
  const settle = rove(pictures, buttons, columns, true);
  let shown = null; // the drawn payload

  const turnBy = (pages) => store.set({ [`${prefix}.page`]: shown.start / shown.page + 1 + pages });
  earlier.addEventListener("click", () => turnBy(-1));
  later.addEventListener("click", () => turnBy(1));
  all.addEventListener("change", () => store.set({ [`${prefix}.all_models`]: all.checked }));
  place.append(gallery);

  return (value, state) => {
    shown = value;
    gallery.hidden = !value;
    if (!value) return;
    const { count, page, sentence, sheet, start } = value;
    all.checked = state[`${prefix}.all_models`];
    wanted.hidden = !sheet;
    const isMissing = isMissingDataset(sentence);
    turns.hidden = isMissing || count <= page;
    earlier.disabled = start === 0;
    later.disabled = start + page >= count;
    found.replaceChildren(...head(value));
    const names = all.checked ? value.models : value.compared;
    const drawn = sheet
      ? value.pictures.map((picture, i) => button(picture, i, value, names))
      : count && !isMissing
      ? [listed(value)]
      : [];
    pictures.className = [
      "pictures",
      sheet ? "" : "listed",
      names.length ? "wide" : "",
      value.pixels ? "pixels" : "",
    ].join(" ");
    pictures.replaceChildren(...(sentence ? [notice(sentence)] : []), ...drawn);
    settle(buttons()[0]);
  };
}
