import { defineDocument } from "../../../store.js";

defineDocument("published_results", { skeleton: "rows" });
