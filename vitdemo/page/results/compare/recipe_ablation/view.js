import { defineDocument } from "../../../components/documents.js";

defineDocument("recipe_ablation", { skeleton: "rows" });
