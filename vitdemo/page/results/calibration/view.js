vitdemo.store.defineDocument("calibration", ["results.model"]);
