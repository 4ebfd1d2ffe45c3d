// Contributions of each layer to a logit, above the prediction after each layer; the layers are columns of equal width.
// To the right are the classes of the patches after the chosen layer, and the heads. A change of the layer needs no request.
import { drawAbout } from "../../../components/grid.js";
import { markup, render as draw } from "../../../markup.js";
import * as store from "../../../store.js";
import { drawLens, drawPatches, drawPatchTable } from "./lens.js";
import { CLASS, drawStream, drawStreamTables, OTHER } from "./waterfall.js";

const EMBEDDING = "lens.embedding"; // state key: whether the input of the first layer is shown, not the page's layer
const ABOUT = [
  "Direct logit attribution: each attention module and each MLP adds a vector to the tokens (the residual stream). The classifier reads the sum, so each part contributes to the logit. The scale of the final LayerNorm is fixed at its value for this image. A part may be more important than its contribution shows, because the contribution excludes effects through later layers.",
  "Logit lens: the classifier head is applied to the tokens after each layer. The last column is the model's prediction. The final LayerNorm and the classifier head were trained only on the output of the last layer, so the other columns are approximations. The class of a patch token is not a label of the patch, because each token contains information from other patches. A classifier head for the class token was not trained on patch tokens.",
];

function create(element) {
  let shown = null; // the page's layer in the last drawing

  function choose(layer) {
    store.set({ [EMBEDDING]: !layer });
    if (layer) store.chooseLayer(layer);
  }

  function render({ lens, run, stream }, state) {
    const isOtherLayer = shown !== null && shown !== state.layer;
    shown = state.layer;
    if (isOtherLayer && state[EMBEDDING]) return store.set({ [EMBEDDING]: false }); // which draws again
    const last = lens.answers.length - 1;
    const layer = state[EMBEDDING] ? 0 : Math.min(state.layer || last, last);
    const { waterfall, heads } = drawStream(stream, state, layer, choose);
    draw(
      markup`<div class="screen">
        <div class="layers" style="--layers: ${last + 1}">
          <div id="residual-stream">${waterfall}</div>
          <div id="lens">${drawLens(lens, layer, choose)}</div>
        </div>
        <div class="layer">${drawPatches(lens, run, layer)}${heads}</div>
      </div>
      ${drawStreamTables(stream, state)}${drawPatchTable(lens, layer)}${drawAbout(...ABOUT)}`,
      element,
    );
  }

  return { render };
}

store.define("layer_by_layer", { skeleton: "figures", follows: ["layer", EMBEDDING, CLASS, OTHER], create });
