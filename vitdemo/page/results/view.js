// The chosen model and the model to compare with. Before there was one menu, each section had its own.
import { follow, renameParam } from "../store.js";

const FORMER = {
  "results.model": ["metrics.model", "confusion.model", "errors.model", "calibration.model"],
  "results.other": ["metrics.other", "confusion.other"],
};
for (const [name, former] of Object.entries(FORMER)) for (const old of former) renameParam(old, name);
follow("results.model", "model");
