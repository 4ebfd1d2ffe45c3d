// Buttons that measure the latency, and the description of the latencies. The table of models shows them, too.
(() => {
const { documentIn, make, store, taskPanel } = vitdemo;
const starts = [
  { id: "latency-here", text: "Measure latency", task: "latency.here" },
  { id: "latency-gpu", text: "Measure latency on a GPU", task: "latency.gpu" },
];
const panel = taskPanel({ starts, unit: "models", views: ["latency", "models_table"] });

store.define("latency", {
  needs: [],
  create(element) {
    const article = make("div", { className: "article" });
    const draw = documentIn(article);
    element.replaceChildren(panel.buttons, panel.progress, article);
    return {
      render({ document, has_gpu: hasGpu }) {
        panel.buttons.querySelector("#latency-gpu").hidden = !hasGpu;
        draw(document);
      },
    };
  },
});
})();
