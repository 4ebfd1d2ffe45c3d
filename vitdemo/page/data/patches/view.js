vitdemo.store.defineDocument("patches", ["image", "data.model"], { skeleton: "tiles" });
