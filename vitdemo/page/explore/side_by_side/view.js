import { defineDocument } from "../../store.js";

defineDocument("side_by_side", ["image", "side-models", "map", "depth", "class"], { skeleton: "figures" });
