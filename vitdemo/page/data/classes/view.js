vitdemo.store.defineDocument("class_statistics", []);
