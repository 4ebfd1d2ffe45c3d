// The fold "Checked in this browser": it compares the results of the chosen model in this browser with those of PyTorch.
import { makeElement, markup, nothing, render } from "../page/markup.js";
import { state, watch } from "../page/store.js";
import { fillPlural, formatNumber } from "../page/texts.js";
import { compareModel, TOLERANCE } from "./comparison.js";

const TITLES = {
  probabilities: "Probabilities",
  matrices: "Attention maps",
  numbers: "Other numbers",
  choice: "Names of classes",
  pixels: "Input pixels",
};

const formatDifference = (kind, { largest, above }) =>
  kind === "choice"
    ? (above ? "different" : "none")
    : largest === Infinity
    ? "not a number"
    : largest
    ? largest.toExponential(1)
    : "0";

const drawRow = (kind, row) =>
  markup`<tr><th scope="row">${TITLES[kind]}</th><td>${formatNumber(row.count)}</td>
    <td>${formatDifference(kind, row)}</td><td>${formatNumber(row.above)}</td></tr>`;

function describeResult(model, rows) {
  const [count, above] = ["count", "above"].map((name) => rows.reduce((sum, row) => sum + row[name], 0));
  const all = formatNumber(count);
  if (!above) {
    return `In this browser, all ${all} values of ${model} agree with PyTorch within the tolerance of ${TOLERANCE}.`;
  }
  return fillPlural(
    above,
    "In this browser, {count} of {all} values of {model} differs from PyTorch by more than the tolerance of {tolerance}. Predictions and maps of your own photos are not reliable here.",
    "In this browser, {count} of {all} values of {model} differ from PyTorch by more than the tolerance of {tolerance}. Predictions and maps of your own photos are not reliable here.",
    { all, model, tolerance: TOLERANCE },
  );
}

function drawResult({ model, rows, photos, torch, runtime, export: version }) {
  const kinds = Object.keys(TITLES).filter((kind) => rows[kind]);
  const values = Object.values(rows);
  const isFaulty = values.some(({ above }) => above);
  return markup`<p class=${isFaulty ? "vd-notice" : "sentence"}>${describeResult(model, values)}</p>
    <div class="vd-scroll" tabindex="0" role="group" aria-label="Differences from PyTorch"><table class="vd-table">
      <thead><tr><th>Result</th><th>Values</th><th>Largest difference</th><th>Too large</th></tr></thead>
      <tbody>${kinds.map((kind) => drawRow(kind, rows[kind]))}</tbody></table></div>
    <p class="note">Inputs: ${photos} example photos. Recorded with PyTorch ${torch}, computed with ONNX Runtime Web
      ${runtime}. Export: ${version}. Attention maps are stored as float16, so rounding causes differences of up to
      0.0005. For numbers above 1, the tolerance is relative.</p>`;
}

// Add the fold to the element `root`.
export function mount(root) {
  const fold = root.appendChild(
    makeElement(markup`<details class="block vd-about" id="browser-check">
      <summary class="label-wrap">Checked in this browser</summary><div></div></details>`),
  );
  let isRunning = false;
  let outcome = nothing; // template of the last result or message

  function draw(progress = "") {
    render(
      markup`<p>This browser computes the results of your own photos. The check computes the example photos in the same way,
        and compares the results with those of PyTorch.</p>
      <button type="button" class="vd-download" aria-disabled=${String(isRunning)}
        @click=${run}>Check ${state.model}</button>
      <div role="status">${progress}${outcome}</div>`,
      fold.lastElementChild,
    );
  }

  async function run() {
    if (isRunning) return;
    isRunning = true;
    outcome = nothing;
    const { model } = state;
    draw("The check starts.");
    try {
      const found = await compareModel(model, (number, count) => draw(`View ${number} of ${count}`));
      outcome = drawResult({ model, ...found });
    } catch (error) {
      outcome = markup`<p class="vd-notice">${error.message}</p>`;
    }
    isRunning = false;
    draw();
  }

  watch(["model"], () => draw());
  draw();
}
