// Status of the runs: new runs are noticed while a run is in progress.
import { openTrainingPanel } from "../../components/links.js";
import * as store from "../../store.js";

const POLL_SECONDS = 4;

store.define("training_runs", {
  pollSeconds: ({ in_progress: isInProgress }) => (isInProgress ? POLL_SECONDS : 0),
  create() {
    let wasOpened = true; // whether the tab was opened since the last data
    store.watch(["tab"], () => {
      wasOpened = true;
    });
    return {
      render({ runs, is_training: isTraining }) {
        store.set({ "training.known": runs });
        if (isTraining && wasOpened) openTrainingPanel(); // "Train a model", with the progress
        wasOpened = false;
      },
    };
  },
});
