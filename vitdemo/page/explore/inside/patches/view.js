import { defineDocument } from "../../../components/documents.js";

defineDocument("patches", { skeleton: "tiles" });
