import { defineDocument } from "../../../store.js";

defineDocument("models_table", ["results.tests"], { skeleton: "rows" });
