// Attribution maps of a class, and the faithfulness test of these maps. The view has two elements:
// #why-maps shows the maps and the buttons, #why-meter the progress of a task and the test's result.
(() => {
const { documentIn, make, progressLine, store } = vitdemo;
const VIEW = "class_attribution";
const NEEDS = ["image", "model", "why", "not", "fill"];
const TASKS = [["why-slow", "Compute slow maps", "slow"], ["why-measure", "Test faithfulness", "faithfulness"]];
const parts = new Map(); // element -> { drawDocument, drawTask, isMeter }
let running = false;
let message = null; // the last message of the task, until the next draw

// Receive a message of the task. When one of its steps has ended, the cache has new results.
function tell(next) {
  running = !next.end;
  const isDone = next.end && !next.error && !next.cancelled;
  const isNextStep = next.text && message?.text && next.text !== message.text;
  if (isDone || isNextStep) store.invalidate(VIEW);
  if (!isDone) message = next.cancelled ? null : next;
  drawTask();
}

function drawTask() {
  for (const part of parts.values()) part.drawTask();
}

// The buttons that start a task, and Cancel while a task runs.
function buttons() {
  const start = TASKS.map(([id, text, task]) => {
    const button = make("button", { type: "button", id, text });
    button.addEventListener("click", () => store.startTask(`${VIEW}.${task}`, tell, NEEDS));
    return button;
  });
  const cancel = make("button", { type: "button", id: "why-cancel", text: "Cancel" });
  cancel.addEventListener("click", store.cancelTask);
  const place = make("div", { className: "buttons" }, ...start);
  const draw = () => {
    for (const button of start) button.disabled = running;
    if (!running) cancel.remove();
    else if (!cancel.parentElement) place.append(cancel);
  };
  return { place, draw };
}

// The progress of the running task, or its error.
function progress() {
  const { place, show } = progressLine();
  return { place, draw: () => show(message ?? { end: true }) };
}

function partOf(element) {
  if (!parts.has(element)) {
    const article = make("div", { className: "article" });
    const isMeter = element.closest("#why-meter") !== null;
    const task = isMeter ? progress() : buttons();
    element.replaceChildren(...(isMeter ? [task.place, article] : [article, task.place]));
    parts.set(element, { drawDocument: documentIn(article), drawTask: task.draw, isMeter });
  }
  return parts.get(element);
}

function draw(element, { maps, faithfulness }) {
  const { drawDocument, isMeter } = partOf(element);
  drawDocument(isMeter ? faithfulness : maps);
  if (!running) message = null;
  drawTask();
}

store.define(VIEW, {
  needs: NEEDS,
  render: draw,
  showError: (element, error) => draw(element, { maps: [{ kind: "Notice", text: error }], faithfulness: [] }),
});
})();
