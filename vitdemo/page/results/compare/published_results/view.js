vitdemo.store.defineDocument("published_results", [], { skeleton: "rows" });
