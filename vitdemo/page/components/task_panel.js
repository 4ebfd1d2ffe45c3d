// Buttons that start tasks of bridge.py, Cancel while a task runs, and the progress of the task.
import { makeElement, markup, nothing, render } from "../markup.js";
import * as store from "../store.js";
import { CANCEL, formatNumber } from "../texts.js";
import { drawNotice, isLocalPage } from "./shared.js";

function describeSteps(done, total, unit) {
  if (!total) return `${done} s`;
  return `${formatNumber(done)} of ${formatNumber(total)} ${unit}`;
}

// The progress of a task in `place`: `show(message)` draws a message or, at the end, only its error. `unit` is the noun
// for steps ("": no steps are shown). A task without a total reports seconds. `others` are elements after the text.
export function createProgressLine(unit = "steps", ...others) {
  const place = makeElement(markup`<div class="vd-progress"></div>`);

  function show({ done, total, text, end, error, isStopping }) {
    if (end) return render(error ? drawNotice(error) : nothing, place);
    const label = isStopping ? "Stopping …" : text || "Waiting for the server";
    const steps = text && unit ? describeSteps(done, total, unit) : "";
    return render(
      markup`<p><progress aria-label=${label} max=${total || 1} value=${
        text && total ? done : nothing
      }></progress>
        <span role="status">${label}</span><span>${steps}</span>${others}</p>`,
      place,
    );
  }
  return { place, show };
}

const drawErrors = ({ data, error }) => (error ? [error] : data ?? []).map(drawNotice);

// Return two elements: the `buttons`, and the `progress` of the running task, later replaced by the result.
// - `starts` are { id, text, busy (text while the task runs), task }, `unit` names the steps, `cancelId` is the id of Cancel.
// - After each step, which has its own text, and at the end, the data of `views` are requested again.
// - A change of a state key that `getWatched` returns cancels the task and removes its result. By default, none does.
// - `drawEnd(message)` returns the template of the result. By default, the result is a list of error messages.
export function createTaskPanel(
  { starts, unit, cancelId = nothing, views = [], getWatched = () => [], drawEnd = drawErrors },
) {
  const buttons = makeElement(markup`<div class="vd-task"></div>`);
  const progress = createProgressLine(unit);
  let last = null; // the last message of the running task
  let started = null; // the start of the last task

  function begin(start) {
    started = start;
    store.startTask(start.task, receive, getWatched());
  }

  function drawButtons() {
    const drawStart = (each) =>
      markup`<button type="button" class="vd-download" id=${each.id} ?disabled=${last} ?hidden=${!store
        .isTaskKnown(each.task)} @click=${() => begin(each)}>${
        (last && each === started && each.busy) || each.text
      }</button>`;
    const drawCancel = () =>
      markup`<button type="button" class="vd-download" id=${cancelId} ?disabled=${last.isStopping} @click=${() =>
        store.stopTask()}>${CANCEL}</button>`;
    render(markup`${starts.map(drawStart)}${last ? drawCancel() : nothing}`, buttons);
  }

  function receive(message) {
    const isNextStep = last?.text && !message.isStopping && message.text !== last.text;
    if (message.end || isNextStep) views.forEach(store.invalidate);
    // Cancel loses the focus when it is disabled.
    const cancelHadFocus = last &&
      document.activeElement === (last.isStopping ? document.body : buttons.lastElementChild);
    last = message.end ? null : message;
    drawButtons();
    if (!message.end) return progress.show(message);
    if (cancelHadFocus) buttons.querySelector(`#${started.id}`).focus({ preventScroll: true });
    return render(drawEnd(message), progress.place);
  }

  drawButtons();
  store.firstAnswer.then(drawButtons); // a page without a server cannot run all tasks
  store.watch(getWatched, () => render(nothing, progress.place));
  return { buttons, progress: progress.place };
}

const START_DELAY = 400; // milliseconds: quick changes of the view start one task

// Return a function that soon presses the `button` of a task of a few seconds if it `isWanted`, unless another task runs.
// For each `key`, the button is pressed once, so that the user can cancel the task. Users of a shared server press the
// button themselves.
export function createQuickStart(button) {
  let [timer, started] = [null, ""];
  return (key, isWanted) => {
    clearTimeout(timer);
    if (key !== started) started = "";
    if (!isWanted || started || !isLocalPage()) return;
    timer = setTimeout(() => {
      if (!button.getClientRects().length || store.isTaskRunning()) return;
      started = key;
      button.click();
    }, START_DELAY);
  };
}
