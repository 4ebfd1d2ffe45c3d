import { defineDocument } from "../../components/documents.js";

defineDocument("calibration", { skeleton: "figures" });
