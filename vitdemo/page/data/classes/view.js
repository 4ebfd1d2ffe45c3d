import { defineDocument } from "../../components/documents.js";

defineDocument("class_statistics", { skeleton: "rows" });
