// Training curves of the chosen runs: smoothing and axes without a request.
(() => {
const { fill, linePlotsIn, smoothCurve, store } = vitdemo;
const texts = vitdemo.texts.curves;

// The original curve is faint below the smoothed curve.
function linesOf({ x, y, ...line }, positions, axis, smoothing) {
  const { epoch, minutes } = positions[x];
  const original = { ...line, x: axis === "minutes" ? minutes : epoch, y, read: true, epochs: axis === "minutes" ? epoch : null };
  if (!smoothing) return [original];
  return [{ ...original, faint: true }, { ...original, y: smoothCurve(y, smoothing), read: false }];
}

// The value of `linePlotsIn` for the data and the display settings.
function plotsOf({ message, legend, note, x: positions, plots }, state) {
  if (message) return { problems: [message] };
  const [smoothing, scale, axis] = ["smoothing", "scale", "axis"].map((name) => state[`training.${name}`]);
  const plotOf = ({ label, has_log_scale: hasLogScale, lines, marks, ...plot }) => ({
    ...plot,
    label: fill(texts.plot_by_axis, { plot: label, axis }),
    x: axis,
    whole: axis === "epoch",
    log: hasLogScale && scale === "log",
    zero: plot.signed,
    lines: lines.flatMap((line) => linesOf(line, positions, axis, smoothing)),
    marks: marks.map((mark) => ({ x: mark[axis], colour: mark.colour })),
  });
  return { legend, note, x: axis, plots: plots.map(plotOf) };
}

store.define("training_curves", {
  needs: ["runs"],
  follows: ["training.smoothing", "training.scale", "training.axis"],
  create(element) {
    const draw = linePlotsIn(element);
    return {
      render: (data, state) => draw(plotsOf(data, state)),
      showError: (message) => draw({ problems: [message] }),
    };
  },
});
})();
