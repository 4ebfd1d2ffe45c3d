import { defineDocument } from "../../../store.js";

defineDocument("attention_distance", { skeleton: "figures" });
