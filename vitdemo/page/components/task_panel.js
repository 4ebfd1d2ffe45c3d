// Buttons that start tasks of bridge.py, Cancel while a task runs, and the progress of the task.
import * as store from "../store.js";
import { fill, LANGUAGE, TEXTS } from "../texts.js";
import { make, notice } from "./shared.js";

const texts = TEXTS.task_panel;
const number = new Intl.NumberFormat(LANGUAGE);

function describeSteps(done, total, unit) {
  if (!total) return fill(texts.seconds, { seconds: done });
  return fill(texts.done, { done: number.format(done), total: number.format(total), unit });
}

// The progress of a task in `place`: `show(message)` draws a message, finally only its error. `unit` names the steps
// ("": no steps are shown); a task that knows no total reports seconds. `others` are elements after the text.
export function progressLine(unit = texts.steps, ...others) {
  const [bar, text, steps] = [make("progress"), make("span", { role: "status" }), make("span")];
  const line = make("p", {}, bar, text, steps, ...others);
  const place = make("div", { className: "vd-progress" });

  // Progress changes only texts, because a click on a button that is replaced meanwhile is lost.
  function show({ done, total, text: words, end, error, isStopping }) {
    if (end) return place.replaceChildren(...(error ? [notice(error)] : []));
    const label = isStopping ? texts.stopping : words || texts.waiting;
    if (text.textContent !== label) text.textContent = bar.ariaLabel = label;
    steps.textContent = words && unit ? describeSteps(done, total, unit) : "";
    if (words && total) Object.assign(bar, { max: total, value: done });
    else bar.removeAttribute("value");
    if (!line.isConnected) place.replaceChildren(line);
  }
  return { place, show };
}

const errors = ({ data, error }) => (error ? [error] : data ?? []).map(notice);

// Return two elements: the `buttons`, and the `progress` of the running task, finally its result.
// - `starts` are { id, text, busy (text while the task runs), task }, `unit` names the steps, `cancelId` is the id of Cancel.
// - After each step, which has its own text, and at the end, the data of `views` are requested again.
// - A change of a state key in `needs` cancels the task and removes its result.
// - `drawEnd(message)` returns the elements of the result. By default, the result is a list of error messages.
export function taskPanel({ starts, unit, cancelId, views = [], needs = [], drawEnd = errors }) {
  const progress = progressLine(unit);
  let before = null; // the previous message of the running task
  let started = null; // the button of the last task

  const button = (id, text) => make("button", { type: "button", className: "vd-download", id, text });
  const begin = starts.map(({ id, text, task }) => {
    const made = button(id, text);
    made.addEventListener("click", () => {
      started = made;
      store.startTask(task, receive, needs);
    });
    return made;
  });
  const cancel = button(cancelId, texts.cancel);
  cancel.addEventListener("click", () => store.stopTask());
  const buttons = make("div", { className: "vd-task" }, ...begin);

  function receive(message) {
    if (message.isStopping) return showStopping(message);
    const isNextStep = before?.text && message.text !== before.text;
    if (message.end || isNextStep) views.forEach(store.invalidate);
    before = message.end ? null : message;
    if (message.end) showEnd(message);
    else showProgress(message);
  }

  function showEnd(message) {
    const hadFocus = document.activeElement === cancel;
    cancel.remove();
    cancel.disabled = false;
    begin.forEach((each, i) => Object.assign(each, { disabled: false, textContent: starts[i].text }));
    if (hadFocus) started.focus();
    progress.place.replaceChildren(...drawEnd(message));
  }

  function showProgress(message) {
    progress.show(message);
    if (cancel.parentElement) return;
    for (const each of begin) each.disabled = true;
    const { busy } = starts[begin.indexOf(started)];
    if (busy) started.textContent = busy;
    buttons.append(cancel);
  }

  function showStopping(message) {
    cancel.disabled = true;
    progress.show(message);
  }

  if (needs.length) store.watch(needs, () => progress.place.replaceChildren());
  return { buttons, progress: progress.place };
}
