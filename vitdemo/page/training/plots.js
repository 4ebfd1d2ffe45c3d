// Plots of training curves: smoothing and axes without a request. All plots and the animation show the same epoch.
import { createLinePlots, smoothCurve } from "../components/line_plots.js";
import * as store from "../store.js";

const TRAINING = "training"; // name of the lines of the training set
const [SMOOTHING, SCALE, AXIS, EPOCH] = ["smoothing", "scale", "axis", "epoch"].map((name) =>
  `training.${name}`
);

// The label at the end of a line: the name of its run or, with a single run, of the line. Training has no label in the
// smaller plots.
function describeLine({ name, run }, shape, isSingle) {
  if (name !== TRAINING) return isSingle ? name : run;
  return shape === "wide" ? "" : name;
}

// The original curve is faint below the smoothed curve.
function makeLines({ x, y, ...line }, positions, axis, smoothing) {
  const { epoch, [axis]: places } = positions[x];
  const original = { ...line, x: places, y, read: true, epochs: axis === "epoch" ? null : epoch };
  if (!smoothing) return [original];
  return [{ ...original, faint: true, label: "" }, {
    ...original,
    y: smoothCurve(y, smoothing),
    read: false,
  }];
}

// Return the plots that `createLinePlots` draws, for the data and the display settings.
function makePlots({ message, note, axes, x: positions, plots }, state) {
  if (message) return { problems: [message] };
  const [smoothing, scale, axis] = [SMOOTHING, SCALE, AXIS].map((key) => state[key]);
  const unit = axes[axis];
  const isSingle = (lines) => new Set(lines.map(({ run }) => run)).size === 1;
  const makePlot = ({ label, has_log_scale: hasLogScale, lines, marks, ...plot }) => ({
    ...plot,
    label: `${label}, by ${unit}`,
    x: unit,
    whole: axis === "epoch",
    log: hasLogScale && scale === "log",
    zero: plot.signed,
    lines: lines.flatMap((line) =>
      makeLines(
        { ...line, label: describeLine(line, plot.shape, isSingle(lines)) },
        positions,
        axis,
        smoothing,
      )
    ),
    marks: marks.map((mark) => ({
      x: mark[axis],
      colour: mark.colour,
      label: plot.shape === "large" ? mark.label : "",
    })),
  });
  return { note, x: unit, plots: plots.map(makePlot) };
}

// Return a function that draws the data of curves in `root`, or only a message.
export function createTrainingPlots(root, options = {}) {
  const listen = (at) => {
    if (store.state[AXIS] === "epoch") store.set({ [EPOCH]: at });
  };
  const draw = createLinePlots(root, { ...options, listen });
  const showEpoch = (state) => {
    if (state[AXIS] === "epoch") draw.showValuesAt(state[EPOCH] || "");
  };
  store.watch([EPOCH], showEpoch);
  return (data, state) => {
    draw(data.message || data.plots ? makePlots(data, state) : null);
    if (state[EPOCH]) showEpoch(state);
  };
}

export const follows = [SMOOTHING, SCALE, AXIS];
