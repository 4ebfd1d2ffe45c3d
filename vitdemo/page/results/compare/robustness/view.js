// A button that measures the robustness, and the curves that are measured.
import { linePlotsIn } from "../../../components/line_plots.js";
import { make } from "../../../components/shared.js";
import { taskPanel } from "../../../components/task_panel.js";
import * as store from "../../../store.js";
import { TEXTS } from "../../../texts.js";

const texts = TEXTS.robustness;
const starts = [{ id: "measure-robustness", text: texts.measure, task: "robustness.measure" }];
const panel = taskPanel({ starts, unit: texts.unit, views: ["robustness"] });

store.define("robustness", {
  skeleton: "rows",
  needs: ["robust-models", "compare.changes", "compare.count"],
  create(element) {
    const plots = make("div");
    const draw = linePlotsIn(plots);
    element.replaceChildren(panel.buttons, panel.progress, plots);
    return { render: draw };
  },
});
