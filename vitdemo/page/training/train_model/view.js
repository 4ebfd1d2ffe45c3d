// The form of a training run, the run in progress with its curves, and the other runs that were started on the page.
import { createLinePlots } from "../../components/line_plots.js";
import { createTaskRows } from "../../components/task_rows.js";
import { markup, nothing, render } from "../../markup.js";
import { drawNotice } from "../../notices.js";
import * as store from "../../store.js";

const POLL_SECONDS = 2; // while a run is in progress
const COST_POLL_SECONDS = 10; // for the speed of the run in progress
const pollSeconds = ({ in_progress: isInProgress }) => (isInProgress ? POLL_SECONDS : 0);

// Other tabs also start runs, for example Custom classes.
store.watch(["tab"], ({ tab }) => {
  if (tab === "training") ["live_curves", "training_jobs"].forEach(store.invalidate);
});

store.define("training_recipe", {
  render: (element, { description }) => render(markup`<p>${description}</p>`, element),
});

store.define("training_cost", {
  pollSeconds: ({ in_progress: inProgress, is_measuring: isMeasuring }) =>
    isMeasuring ? 1 : (inProgress ? COST_POLL_SECONDS : 0),
  render(element, { details, size, time }) {
    const isSize = element.closest("#model-size");
    const content = isSize
      ? markup`<p>${size}</p>`
      : markup`<p role="status"><strong>${time}</strong>${details}</p>`;
    render(content, element);
  },
  showError: (element, error) => render(markup`<p role="status">${error}</p>`, element),
});

// On a phone, the run in progress is below the form.
function showLiveRun() {
  const live = document.querySelector("#live");
  if (live?.getBoundingClientRect().top > window.innerHeight / 2) live.scrollIntoView();
}

store.define("training_start", {
  render(element) {
    const draw = (error) =>
      render(
        markup`<button type="button" id="start-training" class="vd-download primary" @click=${() =>
          store.act("training.start", {}, listen)}>Start training</button>${
          error ? drawNotice(error) : nothing
        }`,
        element,
      );
    function listen(error) {
      draw(error);
      if (!error) requestAnimationFrame(showLiveRun);
    }
    draw(null);
  },
});

// Return a function that draws rows of runs in `element`, below the error of the last pressed button.
function createRunRows(element) {
  render(markup`<div></div><div></div>`, element);
  const [problem, list] = element.children;
  const showProblem = (error) => render(error ? drawNotice(error) : nothing, problem);
  return createTaskRows(list, "", (fields) => store.act("training.change", fields, showProblem));
}

store.define("live_curves", {
  pollSeconds,
  create(element) {
    render(markup`<div></div><div></div>`, element);
    const [list, curves] = element.children;
    const drawRows = createRunRows(list);
    const drawCurves = createLinePlots(curves);
    return {
      render({ rows, plots }) {
        const hadFocus = list.contains(document.activeElement);
        drawRows(rows);
        // A run that was stopped before its first step disappears with its buttons.
        if (hadFocus && !rows.length) document.querySelector("#start-training")?.focus();
        drawCurves(plots);
      },
    };
  },
});

store.define("training_jobs", {
  pollSeconds,
  create(element) {
    render(markup`<h3>Runs started on this page</h3><p class="note" role="status"></p><div></div>`, element);
    const [title, note, list] = element.children;
    const drawRows = createRunRows(list);
    return {
      render({ rows, note: text }) {
        title.hidden = !rows.length;
        note.textContent = text;
        drawRows(rows);
      },
    };
  },
});
