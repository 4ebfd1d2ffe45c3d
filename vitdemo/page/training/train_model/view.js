// The training runs that were started on the page, and live curves of one run.
vitdemo.trainingJobs = (() => {
const { linePlotsIn, store, taskRowsIn } = vitdemo;
const texts = vitdemo.texts.train_model;
const [POLL_SECONDS, IDLE_POLL_SECONDS] = [2, 10]; // while a run is in progress, and while others may start one
const pollSeconds = ({ in_progress: isInProgress }) => (isInProgress ? POLL_SECONDS : IDLE_POLL_SECONDS);

store.define("training_jobs", {
  needs: ["training.baseline"],
  pollSeconds,
  create(element, { trigger }) {
    const draw = taskRowsIn(element, texts.no_jobs, (action) => trigger("act", action));
    return { render: ({ rows }) => draw(rows) };
  },
});

store.define("live_curves", {
  needs: [],
  pollSeconds,
  create(element) {
    const draw = linePlotsIn(element);
    return { render: ({ plots }) => draw(plots) };
  },
});

// Request the runs again, after the user started or changed one.
const update = () => ["training_jobs", "live_curves", "training_runs"].forEach(store.invalidate);
return { update };
})();
