// The download of CIFAR-10: a banner above all tabs, and its state in all cards.
import { drawDatasetCard, updateDatasetCards } from "../../components/dataset_card.js";
import { render } from "../../markup.js";
import * as store from "../../store.js";

const READY_MS = 6000; // how long the banner reports the end of a download

store.define("dataset", {
  pollSeconds: ({ state }) => (state === "running" ? 1 : 0),
  create(element) {
    render(drawDatasetCard("banner"), element);
    const banner = element.querySelector("vd-dataset");
    banner.hidden = true;
    let state = "missing";
    let hasRun = false; // whether a download has run since the page was loaded
    // The command line may have downloaded the dataset since.
    store.watch(["tab"], () => {
      if (!["ready", "running"].includes(state)) store.invalidate("dataset");
    });
    return {
      render(data) {
        state = data.state;
        hasRun ||= state === "running";
        banner.hidden = state === "ready" && !hasRun;
        if (state === "ready" && hasRun) {
          setTimeout(() => {
            banner.hidden = state === "ready";
          }, READY_MS);
        }
        if (state === "ready") hasRun = false;
        updateDatasetCards(data);
      },
    };
  },
});
store.define("dataset_card", { render: (element) => render(drawDatasetCard(), element) });
