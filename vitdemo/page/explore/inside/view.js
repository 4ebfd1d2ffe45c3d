// The menu of the parts of "Inside the model", with a sentence about the chosen part. view.css shows only this part.
import { markup, render as draw } from "../../markup.js";
import * as store from "../../store.js";
import { drawSelect } from "./shared.js";

const PART = "inside";
const SENTENCES = { // description of the part, and an action for the user
  diagram: "From image to prediction. Click a box for details.",
  embeddings: "From pixels to tokens. Click a patch at the bottom to compare its position with all others.",
  one_head:
    "One head, number by number. Point at a patch to use it as the key; click to use it as the query.",
  layers:
    "What each layer adds to a logit, and the prediction after each layer. Click a layer number to choose the layer.",
  similar_patches:
    "Patches with similar tokens. Click a layer number to choose the layer, or a patch to find similar patches.",
  ablation: "Effect of each head on the prediction. Click heads to switch them off.",
  patching:
    "Where a prediction arises. Click or drag over patches to replace their tokens by those of image 2.",
};

const show = ({ [PART]: part }) => {
  document.documentElement.dataset.part = part;
};
store.watch([PART], show);
document.addEventListener("vitdemo:started", () => show(store.state));

store.define("part_menu", {
  follows: [PART],
  render(element, _, state) {
    const options = Object.entries(store.getLabels(PART));
    draw(
      markup`<label>${store.keys[PART].label} ${drawSelect(PART, options, state[PART], "part")}</label>
        <p>${SENTENCES[state[PART]] ?? ""}</p>`,
      element,
    );
  },
});
