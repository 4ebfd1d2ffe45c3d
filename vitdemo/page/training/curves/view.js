// Accuracy, loss and generalisation gap of the chosen runs.
import * as store from "../../store.js";
import * as trainingPlots from "../plots.js";

store.define("training_curves", {
  skeleton: "figures",
  follows: trainingPlots.follows,
  create(element) {
    const draw = trainingPlots.createTrainingPlots(element);
    return { render: draw, showError: (message) => draw({ message }) };
  },
});
