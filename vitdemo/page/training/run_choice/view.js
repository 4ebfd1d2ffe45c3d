// Status of the runs: new runs are noticed while a run is in progress.
import * as store from "../../store.js";

const POLL_SECONDS = 4;

store.define("training_runs", {
  pollSeconds: ({ in_progress: isInProgress }) => (isInProgress ? POLL_SECONDS : 0),
  render: (_, { runs }) => store.set({ "training.known": runs }),
});
