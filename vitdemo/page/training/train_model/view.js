// The form of a training run, the runs that were started on the page, and live curves of one run.
import { createLinePlots } from "../../components/line_plots.js";
import { createTaskRows } from "../../components/task_rows.js";
import { markup, nothing, render } from "../../markup.js";
import { drawNotice } from "../../notices.js";
import * as store from "../../store.js";

const [POLL_SECONDS, IDLE_POLL_SECONDS] = [2, 10]; // seconds while a run is in progress, and otherwise
const pollSeconds = ({ in_progress: isInProgress }) => (isInProgress ? POLL_SECONDS : IDLE_POLL_SECONDS);

store.define("training_recipe", {
  render: (element, { description }) => render(markup`<p>${description}</p>`, element),
});

store.define("training_cost", {
  pollSeconds: ({ is_measuring: isMeasuring }) => (isMeasuring ? 1 : 0),
  render: (element, { text, is_measuring: isMeasuring }) =>
    render(
      markup`<p role="status">${isMeasuring ? "Measuring the training time on this machine …" : text}</p>`,
      element,
    ),
  showError: (element, error) => render(markup`<p role="status">${error}</p>`, element),
});

store.define("training_start", {
  render(element) {
    const draw = (error) =>
      render(
        markup`<button type="button" id="start-training" class="vd-download primary" @click=${() =>
          store.act("training.start", {}, draw)}>Start training</button>${
          error ? drawNotice(error) : nothing
        }`,
        element,
      );
    draw(null);
  },
});

store.define("training_jobs", {
  pollSeconds,
  create(element) {
    render(markup`<p class="note" role="status"></p><div></div><div></div>`, element);
    const [note, problem, list] = element.children;
    const showProblem = (error) => render(error ? drawNotice(error) : nothing, problem);
    const draw = createTaskRows(
      list,
      "No training run has been started on this page yet.",
      (fields) => store.act("training.change", fields, showProblem),
    );
    return {
      render: ({ rows, note: text }) => {
        draw(rows);
        note.textContent = text;
      },
    };
  },
});

store.define("live_curves", {
  pollSeconds,
  create(element) {
    const draw = createLinePlots(element);
    return { render: ({ plots }) => draw(plots) };
  },
});
