vitdemo.store.set({ filters: "" }); // the first choice
vitdemo.store.defineDocument("patch_embedding", ["model", "filters"]);
