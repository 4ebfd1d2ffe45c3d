import { defineDocument } from "../../store.js";

defineDocument("calibration", ["results.model"], { skeleton: "figures" });
