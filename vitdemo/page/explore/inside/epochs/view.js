import * as store from "../../../store.js";

function openModel(model) {
  store.choose("model", model);
  store.showControl("model", { value: model });
}

store.defineDocument("epochs", { skeleton: "tiles", pick: openModel });
