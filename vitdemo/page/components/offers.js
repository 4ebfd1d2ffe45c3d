// Example images: included photos, ground truth images and some test images. A click chooses the image. A ground truth image
// also chooses the model that was trained on such images.
import * as store from "../store.js";
import { markup, render } from "../markup.js";
import { drawDatasetCard, isMissingDataset } from "./dataset_card.js";
import { createRoving, formatSheetStyle } from "./shared.js";

const PHOTOS = "Photos";
const UNLIKE = "Not in CIFAR-10";
const TEST_IMAGES = "Test images";
const TRUTH = "Ground truth: the correct map is known";

export function mount({ element, props, trigger, watch }) {
  const countColumns = ([first]) =>
    getComputedStyle(first.parentElement).gridTemplateColumns.split(" ").length;
  const keys = createRoving(countColumns);
  let isMissing = false; // whether there are no test images, because the dataset is missing
  let truthModels = []; // models of ground truth images, which predict no other classes
  let earlierModel = null; // the last model that is not a ground truth model

  function chooseImage(source, ownModel) {
    if (!truthModels.includes(store.state.model)) earlierModel = store.state.model;
    const model = ownModel ?? earlierModel ?? store.getFirstModel();
    store.set({ image: { source, path: null, at: 0.5 }, model, unavailable: "" });
    store.showControl("model", { value: model });
  }

  function drawTile({ sources, titles, sheet, models = [] }, i) {
    const style = formatSheetStyle(sheet, i, sources.length);
    return markup`<button type="button" title=${titles[i]} aria-label=${titles[i]} style=${style}
      tabindex=${i ? -1 : 0} @click=${() => chooseImage(sources[i], models[i])}></button>`;
  }

  const drawTiles = (offered, label) =>
    markup`<div class="tiles" role="group" aria-label=${label} @focusin=${keys.focus} @keydown=${keys.press}>${
      (offered?.sources ?? []).map((_, i) => drawTile(offered, i))
    }</div>`;

  function draw() {
    const { photos, unlike, truth, tests, sentence = "" } = store.parsePayload(props) ?? {};
    truthModels = truth?.models ?? [];
    isMissing = isMissingDataset(sentence);
    const showOthers = () => trigger("others");
    render(
      markup`<div class="offers">
        <div class="group photos" ?hidden=${!photos}><p>${PHOTOS}</p>${drawTiles(photos, PHOTOS)}</div>
        <div class="group unlike" ?hidden=${!unlike}><p>${UNLIKE}</p>${drawTiles(unlike, UNLIKE)}</div>
        <div class="group truth" ?hidden=${!truth}><p>${TRUTH}</p>${drawTiles(truth, TRUTH)}</div>
        <div class="group tests" ?hidden=${!tests}>
          <p>${TEST_IMAGES} <button type="button" class="others" @click=${showOthers}>Show other images</button></p>
          ${drawTiles(tests, TEST_IMAGES)}
        </div>
        <div class="sentence">${isMissing ? drawDatasetCard("compact") : sentence}</div>
      </div>`,
      element,
    );
  }
  // The stamp of the models also changes when the dataset is downloaded.
  store.watch(["models"], () => {
    if (isMissing) trigger("others");
  });
  watch("value", draw);
  draw();
}
