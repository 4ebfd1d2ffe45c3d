// The training runs that were started on the page, and live curves of one run.
import { createLinePlots } from "../../components/line_plots.js";
import { createTaskRows } from "../../components/task_rows.js";
import { markup, render } from "../../markup.js";
import * as store from "../../store.js";

const [POLL_SECONDS, IDLE_POLL_SECONDS] = [2, 10]; // seconds while a run is in progress, and otherwise
const pollSeconds = ({ in_progress: isInProgress }) => (isInProgress ? POLL_SECONDS : IDLE_POLL_SECONDS);

store.define("training_jobs", {
  pollSeconds,
  create(element, { trigger }) {
    render(markup`<p class="note" role="status"></p><div></div>`, element);
    const [note, list] = element.children;
    const draw = createTaskRows(
      list,
      "No training run has been started on this page yet.",
      (action) => trigger("act", action),
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

// Request the runs again after the user started or changed a run.
export const update = () => ["training_jobs", "live_curves", "training_runs"].forEach(store.invalidate);

export function openPanel() {
  const label = document.querySelector("#train-here .label-wrap");
  if (label && !label.matches(".open")) label.click();
}

// Open the form with its first recipe. gradio adds the form when the panel is opened.
export function openForm() {
  openPanel();
  if (!document.querySelector("#set-up-training")) return; // the panel explains why training is disabled
  const preset = document.querySelector("#preset input");
  if (!preset) return requestAnimationFrame(openForm);
  if (!preset.checked) preset.click();
  preset.focus({ preventScroll: true });
}
