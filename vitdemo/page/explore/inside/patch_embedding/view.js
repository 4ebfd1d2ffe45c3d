import { defineDocument } from "../../../store.js";

defineDocument("patch_embedding", ["model", "filters"], { skeleton: "tiles" });
