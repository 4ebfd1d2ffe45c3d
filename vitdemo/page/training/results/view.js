// More about the chosen runs: further curves, texts and tables, hidden until the user opens them.
import { documentIn } from "../../components/documents.js";
import { openAblation } from "../../results/compare/recipe_ablation/view.js";
import { markup, render } from "../../markup.js";
import * as store from "../../store.js";
import * as trainingPlots from "../curves/plots.js";

function create(element) {
  const layOut = (title, isHidden) =>
    render(
      markup`<details class="vd-more" ?hidden=${isHidden}><summary>${title}</summary><div></div><div
        class="article"></div></details>`,
      element,
    );
  layOut("", true);
  const [, curves, text] = element.firstElementChild.children;
  const drawCurves = trainingPlots.trainingPlotsIn(curves, { hasSlider: false });
  const drawText = documentIn(text, (name) => openAblation(name));
  let drawn = null; // blocks of the drawn document
  return {
    render(data, state) {
      layOut(data.title, !data.blocks.length);
      drawCurves(data.curves, state);
      if (data.blocks !== drawn) drawText(data.blocks);
      drawn = data.blocks;
    },
  };
}

store.define("training_results", {
  skeleton: "rows",
  needs: ["runs"],
  follows: trainingPlots.follows,
  create,
});
