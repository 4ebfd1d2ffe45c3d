vitdemo.store.defineDocument("calibration", ["model", "results.model"]);
