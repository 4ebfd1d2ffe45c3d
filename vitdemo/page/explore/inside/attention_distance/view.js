vitdemo.store.defineDocument("attention_distance", ["image"], { skeleton: "figures" });
