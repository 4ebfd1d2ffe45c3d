vitdemo.store.defineDocument("calibration", ["calibration.model"]);
