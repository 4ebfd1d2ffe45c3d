import { defineDocument } from "../../store.js";

defineDocument("calibration", ["results.tests", "results.model"], { skeleton: "figures" });
