// Example images: included photos and some test images. A click chooses the image.
import { datasetCard, isMissingDataset } from "../data/download/view.js";
import * as store from "../store.js";
import { html, TEXTS } from "../texts.js";
import { make, received, rove } from "./shared.js";

export function mount({ element, props, trigger, watch }) {
  const texts = TEXTS.offers;
  element.innerHTML = html`
    <div class="offers">
      <div class="group photos">
        <p>${texts.photos}</p>
        <div class="tiles" role="group" aria-label="${texts.photos}"></div>
      </div>
      <div class="group tests">
        <p>${texts.test_images} <button type="button" class="others">${texts.show_others}</button></p>
        <div class="tiles" role="group" aria-label="${texts.test_images}"></div>
      </div>
      <div class="sentence"></div>
    </div>
  `;
  const part = (name) => element.querySelector("." + name);
  const groups = {};
  let isMissing = false; // whether there are no test images, because the dataset is missing
  for (const name of ["photos", "tests"]) {
    const tiles = part(name).querySelector(".tiles");
    const columns = () => getComputedStyle(tiles).gridTemplateColumns.split(" ").length;
    groups[name] = { tiles, settle: rove(tiles, () => [...tiles.children], columns) };
  }

  function draw() {
    const value = received(props);
    for (const [name, { tiles, settle }] of Object.entries(groups)) {
      const offered = value?.[name];
      part(name).hidden = !offered;
      const count = offered?.sources.length ?? 0;
      tiles.replaceChildren(...Array.from({ length: count }, (_, i) => {
        const words = offered.words[i];
        const at = count > 1 ? (100 * i) / (count - 1) : 0;
        const tile = make("button", {
          type: "button",
          title: words,
          "aria-label": words,
          style: `background-image: url("${offered.sheet.url}"); background-size: ${
            100 * count
          }% 100%; background-position: ${at}% 0`,
        });
        tile.addEventListener(
          "click",
          () => store.set({ image: { source: offered.sources[i], path: null, at: 0.5 }, unavailable: "" }),
        );
        return tile;
      }));
      settle(tiles.firstElementChild);
    }
    const sentence = value?.sentence ?? "";
    isMissing = isMissingDataset(sentence);
    part("sentence").replaceChildren(isMissing ? datasetCard("compact") : sentence);
  }
  // The stamp of the models also changes when the dataset is downloaded.
  store.watch(["models"], () => {
    if (isMissing) trigger("others");
  });
  part("others").addEventListener("click", () => trigger("others"));
  watch("value", draw);
  draw();
}
