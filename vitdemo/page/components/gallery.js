// Test images as buttons with the models' predictions, or a table if the images are not available.
// A click opens an image in Explore. The payload is described in vitdemo/page/gallery.py.
import { markup, nothing, render } from "../markup.js";
import * as store from "../store.js";
import { fill, fillPlural, formatNumber } from "../texts.js";
import { isMissingDataset } from "./dataset_card.js";
import { createRoving, drawNotice, formatProbability, formatSheetStyle } from "./shared.js";
import { drawTable } from "./table.js";

// A change of `filters` leads back to the first page of the gallery, unless the same change chooses a page.
export function resetPageOf(prefix, filters) {
  const { set, watch } = store;
  const page = `${prefix}.page`;
  watch(filters, (_, changes) => {
    if (!(page in changes)) set({ [page]: 1 });
  });
}

// Number of images and the visible range; screen readers read it out when it changes.
function drawCount({ count, start, page, sentence }) {
  const images = count ? fillPlural(count, "{count} image", "{count} images") : "No image";
  if (isMissingDataset(sentence)) return images;
  const [first, last] = [start + 1, Math.min(start + page, count)].map(formatNumber);
  const words = count > page ? `${images}, ${first} to ${last} shown` : images;
  return markup`${words}<small>${
    count ? ". Captions: true class → predicted class, and confidence" : ""
  }</small>`;
}

function drawImageButton(picture, at, value, names) {
  const { true: truth, answers } = picture;
  const [predicted, confidence] = answers[value.models.indexOf(value.model)];
  const lines = names.map((name) => {
    const [said, share] = answers[value.models.indexOf(name)];
    return `${name}: ${said}${said === truth ? " ✓" : ""} ${formatProbability(share)}`;
  });
  const rows = Math.ceil(value.pictures.length / value.columns);
  const spoken = fill(
    predicted === truth
      ? "Test image {number}: {truth}, classified correctly by {model} with {confidence} confidence"
      : "Test image {number}: {truth}, predicted as {predicted} by {model} with {confidence} confidence",
    {
      number: picture.number,
      truth,
      predicted,
      model: value.model,
      confidence: formatProbability(confidence),
    },
  );
  const click = () => store.openImage({ ...value.opening, image: picture.image });
  return markup`<button type="button" aria-label=${[spoken, ...lines, "Open in Explore."].join(". ")}
    data-pick=${picture.number} tabindex=${at ? -1 : 0} @click=${click}>
    <span class="thumb" style=${
    formatSheetStyle(value.sheet, at, value.columns, rows)
  } title="Test image ${picture.number}"></span>
    <b>${predicted === truth ? `${truth} ✓` : `${truth} → ${predicted}`}</b>
    <span>${formatProbability(confidence)}</span>
    ${lines.map((text) => markup`<small>${text}</small>`)}
  </button>`;
}

function listPredictions({ model, models, pictures }) {
  const names = [model, ...models.filter((name) => name !== model)];
  const formatPrediction = ([predicted, share]) => `${predicted} ${formatProbability(share)}`;
  const makeRow = (
    { number, true: truth, answers },
  ) => [number, truth, ...names.map((name) => formatPrediction(answers[models.indexOf(name)]))];
  return drawTable({
    columns: ["Test image", "True class", ...names],
    rows: pictures.map(makeRow),
  });
}

// Add the gallery of the state keys `prefix` to `place`. Return a function that draws a payload; null hides the gallery.
export function createGallery(place, prefix) {
  const gallery = place.appendChild(document.createElement("div"));
  gallery.className = "vd-gallery";
  gallery.hidden = true;
  const countColumns = ([first]) =>
    getComputedStyle(first.parentElement).gridTemplateColumns.split(" ").length;
  const keys = createRoving(countColumns, true);
  const showAll = ({ target }) => store.set({ [`${prefix}.all_models`]: target.checked });

  return (value, state) => {
    gallery.hidden = !value;
    if (!value) return;
    const { count, page, sentence, sheet, start } = value;
    const showsAll = state[`${prefix}.all_models`];
    const isMissing = isMissingDataset(sentence);
    const names = showsAll ? value.models : value.compared;
    const turnPages = (pages) => store.set({ [`${prefix}.page`]: start / page + 1 + pages });
    const drawList = () => (count && !isMissing ? listPredictions(value) : nothing);
    const looks = [
      "pictures",
      sheet ? "" : "listed",
      names.length ? "wide" : "",
      value.pixels ? "pixels" : "",
    ];
    render(
      markup`<div class="top">
          <p class="found" role="status">${drawCount(value)}</p>
          <label class="wanted" ?hidden=${!sheet}><input type="checkbox" .checked=${showsAll}
            @change=${showAll}> Show all models' predictions</label>
        </div>
        <div role="group" aria-label="Test images" class=${looks.join(" ")} @focusin=${keys.focus}
          @keydown=${keys.press}>${sentence ? drawNotice(sentence) : nothing}${
        sheet ? value.pictures.map((picture, i) => drawImageButton(picture, i, value, names)) : drawList()
      }</div>
        <div class="turns" ?hidden=${isMissing || count <= page}>
          <button type="button" class="earlier" ?disabled=${start === 0}
            @click=${() => turnPages(-1)}>Previous images</button>
          <button type="button" class="later" ?disabled=${start + page >= count}
            @click=${() => turnPages(1)}>Next images</button>
        </div>`,
      gallery,
    );
  };
}
