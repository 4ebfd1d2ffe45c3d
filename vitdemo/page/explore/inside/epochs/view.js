import { defineDocument } from "../../../components/documents.js";
import * as store from "../../../store.js";

function openModel(model) {
  store.choose("model", model);
  store.showControl("model", { value: model });
}

defineDocument("epochs", { skeleton: "tiles", pick: openModel });
