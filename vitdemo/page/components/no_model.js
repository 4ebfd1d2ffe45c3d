// The card "no_model", which replaces the content of a tab while there is no model or no run. The store sets the
// attribute that no_model.css reads.
import { markup, render as draw } from "../markup.js";
import * as store from "../store.js";
import { TEXTS } from "../texts.js";
import { openForm } from "../training/train_model/view.js";

const texts = TEXTS.no_model;

function openTraining() {
  store.openTab("training");
  openForm();
}

store.define("no_model", {
  render(element) {
    draw(
      markup`<section class="vd-no-model"><h2>${texts.title}</h2><p>${texts.purpose}</p>
        <button type="button" class="vd-download primary" @click=${openTraining}>${texts.train}</button>
        <p class="pretrained">${texts.pretrained}</p></section>`,
      element,
    );
  },
});
