// More about the chosen runs: further curves, texts and tables, hidden until the user opens them.
import { documentIn } from "../../components/documents.js";
import { make } from "../../components/shared.js";
import { openAblation } from "../../results/compare/recipe_ablation/view.js";
import * as store from "../../store.js";
import * as trainingPlots from "../curves/plots.js";

function create(element) {
  const [summary, curves, text] = [make("summary"), make("div"), make("div", { className: "article" })];
  const details = make("details", { className: "vd-more", hidden: true }, summary, curves, text);
  const drawCurves = trainingPlots.trainingPlotsIn(curves, { hasSlider: false });
  const drawText = documentIn(text, (name) => openAblation(name));
  let drawn = null; // blocks of the drawn document
  element.replaceChildren(details);
  return {
    render(data, state) {
      summary.textContent = data.title;
      details.hidden = !data.blocks.length;
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
