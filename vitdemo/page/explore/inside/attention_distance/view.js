import { defineDocument } from "../../../store.js";

defineDocument("attention_distance", ["image"], { skeleton: "figures" });
