import { defineDocument } from "../../../components/documents.js";

defineDocument("models_table", { skeleton: "rows" });
