vitdemo.store.defineDocument("models_table", [], { skeleton: "rows" });
