vitdemo.store.defineDocument("patch_embedding", ["model", "filters"], { skeleton: "tiles" });
