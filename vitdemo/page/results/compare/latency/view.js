// Buttons that measure the latency, and the description of the latencies. The table of models also shows the latencies.
import { createDocument } from "../../../components/documents.js";
import { createTaskPanel } from "../../../components/task_panel.js";
import { markup, render } from "../../../markup.js";
import * as store from "../../../store.js";

const starts = [
  { id: "latency-here", text: "Measure latency", task: "latency.here" },
  { id: "latency-gpu", text: "Measure latency on a GPU", task: "latency.gpu" },
];
const panel = createTaskPanel({ starts, unit: "models", views: ["latency", "models_table"] });

store.define("latency", {
  create(element) {
    render(markup`${panel.buttons}${panel.progress}<div class="article"></div>`, element);
    const draw = createDocument(element.lastElementChild);
    return {
      render({ document, has_gpu: hasGpu }) {
        panel.buttons.querySelector("#latency-gpu").hidden = !hasGpu;
        draw(document);
      },
    };
  },
});
