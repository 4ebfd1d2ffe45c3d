import { defineDocument } from "../../../store.js";

defineDocument("patch_embedding", { skeleton: "tiles" });
