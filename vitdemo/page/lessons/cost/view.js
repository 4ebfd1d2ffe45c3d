// The cost of a model as a table, with buttons that measure its latency and make it the baseline.
import { createDocument } from "../../components/documents.js";
import { drawActionButton } from "../../components/shared.js";
import { createProgressLine } from "../../components/task_panel.js";
import { makeElement, markup, render } from "../../markup.js";
import * as store from "../../store.js";
import { CANCEL } from "../../texts.js";

const SIZES = ["image", "patch", "width", "depth", "heads"].map((name) => `cost.${name}`);
const BASELINE = "cost.baseline";
const LESSON = "7-training"; // the lesson that uses the calculator

// Show the calculator in its lesson, and at an address that contains sizes.
function show(state) {
  const isShown = state.lesson === LESSON || SIZES.some((name) => state[name] !== store.keys[name].start);
  document.documentElement.toggleAttribute("data-cost", isShown);
}
store.watch(["lesson", ...SIZES], show);
document.addEventListener("vitdemo:started", () => show(store.state));

function create(element) {
  const makeButton = (...options) => makeElement(drawActionButton(...options));
  const start = () => store.startTask("cost.measure", listen, SIZES);
  const setBaseline = () => store.set({ [BASELINE]: SIZES.map((name) => store.state[name]).join(",") });
  const measure = makeButton("Measure latency", start, "cost-measure");
  const keep = makeButton("Use as baseline", setBaseline, "cost-keep");
  const cancel = makeButton(CANCEL, () => {
    store.cancelTask();
    measure.focus();
  });
  const progress = createProgressLine("", cancel);
  render(
    markup`<div class="vd-task">${measure}${keep}</div>
      <div class="article"></div><div class="article"></div>${progress.place}`,
    element,
  );
  const [drawTable, drawLatency] = [...element.querySelectorAll(".article")].map((place) =>
    createDocument(place)
  );

  function listen(message) {
    progress.show(message);
    drawLatency(message.data ?? []);
  }

  function draw(blocks, isValid) {
    drawLatency([]);
    drawTable(blocks);
    measure.disabled = keep.disabled = !isValid;
  }

  return {
    render: (blocks) => draw(blocks, true),
    showError: (text) => draw([{ kind: "Notice", text }], false),
  };
}

store.define("cost", { create });
