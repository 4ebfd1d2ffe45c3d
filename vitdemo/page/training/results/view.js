// More about the chosen runs: further curves, texts and tables, which are requested while the fold is open.
import { createDocument } from "../../components/documents.js";
import { openAblation } from "../../components/links.js";
import { markup, render } from "../../markup.js";
import * as store from "../../store.js";
import * as trainingPlots from "../plots.js";

const OPEN = "training.more"; // state key: true while the fold is open, otherwise null

function create(element) {
  const toggle = ({ target }) => store.set({ [OPEN]: target.open || null });
  render(
    markup`<details class="vd-more" @toggle=${toggle}><summary>More about these runs</summary>
      <div></div><div class="article"></div></details>`,
    element,
  );
  const [, curves, text] = element.firstElementChild.children;
  const drawCurves = trainingPlots.createTrainingPlots(curves, { hasSlider: false });
  const drawText = createDocument(text, (name) => openAblation(name));
  let drawn = null; // blocks of the drawn document
  return {
    render(data, state) {
      drawCurves(data.curves, state);
      if (data.blocks !== drawn) drawText(data.blocks);
      drawn = data.blocks;
    },
  };
}

store.define("training_results", {
  follows: trainingPlots.follows,
  create,
});
