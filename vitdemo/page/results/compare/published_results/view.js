import { defineDocument } from "../../../components/documents.js";

defineDocument("published_results", { skeleton: "rows" });
