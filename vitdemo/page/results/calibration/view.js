import { defineDocument } from "../../store.js";

defineDocument("calibration", { skeleton: "figures" });
