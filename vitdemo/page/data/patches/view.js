import { defineDocument } from "../../store.js";

defineDocument("patches", { skeleton: "tiles" });
