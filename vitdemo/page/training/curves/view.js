// Accuracy, loss and generalisation gap of the chosen runs.
vitdemo.store.define("training_curves", {
  skeleton: "figures",
  needs: ["runs"],
  follows: vitdemo.trainingPlots.follows,
  create(element) {
    const draw = vitdemo.trainingPlots.trainingPlotsIn(element);
    return { render: draw, showError: (message) => draw({ message }) };
  },
});
