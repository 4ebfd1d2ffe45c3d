vitdemo.store.defineDocument("calibration", ["results.model"], { skeleton: "figures" });
