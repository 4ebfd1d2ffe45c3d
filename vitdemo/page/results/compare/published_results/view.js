vitdemo.store.defineDocument("published_results", []);
