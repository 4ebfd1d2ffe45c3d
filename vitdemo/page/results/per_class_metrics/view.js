{
const MODELS = ["model", "results.model", "results.other"];
vitdemo.store.defineDocument("class_metrics", [...MODELS]);
vitdemo.store.defineDocument("paired_test", [...MODELS]);
vitdemo.store.defineDocument("ranking_curves", [...MODELS, "metrics.classes"]);
}
