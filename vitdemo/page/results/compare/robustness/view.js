// A button that measures the robustness, and the curves that are measured.
import { createLinePlots } from "../../../components/line_plots.js";
import { createTaskPanel } from "../../../components/task_panel.js";
import { markup, render } from "../../../markup.js";
import * as store from "../../../store.js";

const starts = [{ id: "measure-robustness", text: "Measure robustness", task: "robustness.measure" }];
const panel = createTaskPanel({ starts, unit: "points", views: ["robustness"] });

store.define("robustness", {
  skeleton: "rows",
  create(element) {
    render(markup`${panel.buttons}${panel.progress}<div></div>`, element);
    return { render: createLinePlots(element.lastElementChild) };
  },
});
