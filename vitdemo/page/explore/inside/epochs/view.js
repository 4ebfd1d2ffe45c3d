import { defineDocument } from "../../../store.js";

defineDocument("epochs", ["image", "model", "layer"], { skeleton: "tiles" });
