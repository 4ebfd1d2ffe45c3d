vitdemo.store.defineDocument("models_table", []);
