// Attribution maps of a class, and the faithfulness test of these maps. The view has two elements:
// #why-maps shows the maps and the buttons, #why-meter the progress of a task and the test's result.
(() => {
const { documentIn, make, store, taskPanel } = vitdemo;
const texts = vitdemo.texts.class_attribution;
const VIEW = "class_attribution";
const NEEDS = ["image", "model", "why", "not", "fill"];
const starts = [
  { id: "why-slow", text: texts.compute_slow_maps, task: `${VIEW}.slow` },
  { id: "why-measure", text: texts.test_faithfulness, task: `${VIEW}.faithfulness` },
];
const panel = taskPanel({ starts, cancelId: "why-cancel", views: [VIEW], needs: NEEDS });

store.define(VIEW, {
  skeleton: "figures",
  needs: NEEDS,
  create(element) {
    const isMeter = element.closest("#why-meter") !== null;
    const article = make("div", { className: "article" });
    const draw = documentIn(article);
    element.replaceChildren(...(isMeter ? [panel.progress, article] : [article, panel.buttons]));
    return {
      render: ({ maps, faithfulness }) => draw(isMeter ? faithfulness : maps),
      showError: (text) => draw(isMeter ? [] : [{ kind: "Notice", text }]),
    };
  },
});
})();
