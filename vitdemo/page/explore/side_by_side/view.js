import { defineDocument } from "../../store.js";

defineDocument("side_by_side", { skeleton: "figures" });
