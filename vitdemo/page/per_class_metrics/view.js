vitdemo.store.defineDocument("class_metrics", ["metrics.model", "metrics.other"]);
vitdemo.store.defineDocument("paired_test", ["metrics.model", "metrics.other"]);
vitdemo.store.defineDocument("ranking_curves", ["metrics.model", "metrics.other", "metrics.classes"]);
