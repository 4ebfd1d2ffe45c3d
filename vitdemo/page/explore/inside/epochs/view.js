vitdemo.store.defineDocument("epochs", ["image", "model", "layer"], { skeleton: "tiles" });
