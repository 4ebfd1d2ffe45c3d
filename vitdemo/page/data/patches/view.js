import { defineDocument } from "../../store.js";

defineDocument("patches", ["image", "data.model"], { skeleton: "tiles" });
