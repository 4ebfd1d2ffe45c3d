vitdemo.store.defineDocument("training_results", ["runs"], { pick: (name) => vitdemo.openAblation(name) });
