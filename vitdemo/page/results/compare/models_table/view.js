import { defineDocument } from "../../../store.js";

defineDocument("models_table", { skeleton: "rows" });
