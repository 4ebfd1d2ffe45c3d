import { defineDocument } from "../../store.js";

defineDocument("class_statistics", { skeleton: "rows" });
