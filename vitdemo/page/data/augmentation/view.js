import { defineDocument } from "../../components/documents.js";
import * as store from "../../store.js";

export function chooseNextSeed(maxSeed) {
  const seed = store.state["data.seed"];
  store.updateControls({ "data.seed": { value: seed < maxSeed ? seed + 1 : 0 } });
}

defineDocument("augmentation", { skeleton: "tiles" });
