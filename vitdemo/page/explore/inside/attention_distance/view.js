import { defineDocument } from "../../../components/documents.js";

defineDocument("attention_distance", { skeleton: "figures" });
