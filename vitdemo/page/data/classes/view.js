vitdemo.store.defineDocument("class_statistics", [], { skeleton: "rows" });
