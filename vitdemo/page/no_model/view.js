// The card "no_model", which replaces the content of a tab while there is no model or no run. The store sets the
// attribute that view.css reads.
import { markup, render as draw } from "../markup.js";
import * as store from "../store.js";

store.define("no_model", {
  render(element) {
    draw(
      markup`<section class="vd-no-model"><h2>No trained model</h2><p>Attention maps, test results and learning curves appear after a training run.</p>
        <button type="button" class="vd-download primary" @click=${() =>
        store.openTab("training")}>Train a model</button>
        <p class="pretrained">You can also add a pretrained model under 'More models'.</p></section>`,
      element,
    );
  },
});
