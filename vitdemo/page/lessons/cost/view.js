// The cost of a model as a table, with buttons that measure its latency and make it the baseline.
import { documentIn } from "../../components/documents.js";
import { make } from "../../components/shared.js";
import { progressLine } from "../../components/task_panel.js";
import * as store from "../../store.js";
import { TEXTS } from "../../texts.js";

const texts = TEXTS.cost;
const SIZES = ["image", "patch", "width", "depth", "heads"].map((name) => `cost.${name}`);
const BASELINE = "cost.baseline";
store.defineParam(BASELINE);

function create(element) {
  const button = (id, text, click) => {
    const made = make("button", { type: "button", className: "vd-download", id, text });
    made.addEventListener("click", click);
    return made;
  };
  const [table, latency] = [make("div", { className: "article" }), make("div", { className: "article" })];
  const [drawTable, drawLatency] = [table, latency].map((place) => documentIn(place));
  const cancel = make("button", { type: "button", className: "vd-download", text: TEXTS.task_panel.cancel });
  const progress = progressLine("", cancel);
  const measure = button("cost-measure", texts.measure, () => store.startTask("cost.measure", listen, SIZES));
  const keep = button(
    "cost-keep",
    texts.keep,
    () => store.set({ [BASELINE]: SIZES.map((name) => store.state[name]).join(",") }),
  );
  cancel.addEventListener("click", () => {
    store.cancelTask();
    measure.focus();
  });

  function listen(message) {
    progress.show(message);
    drawLatency(message.data ?? []);
  }

  function draw(blocks, isValid) {
    drawLatency([]);
    drawTable(blocks);
    measure.disabled = keep.disabled = !isValid;
  }

  element.replaceChildren(
    make("div", { className: "vd-task" }, make("div", { className: "buttons" }, measure, keep)),
    table,
    latency,
    progress.place,
  );
  return {
    render: (blocks) => draw(blocks, true),
    showError: (text) => draw([{ kind: "Notice", text }], false),
  };
}

store.define("cost", { needs: [...SIZES, BASELINE], create });
