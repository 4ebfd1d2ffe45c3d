// Functions that several parts of the section "Inside the model" use.
import { loadMatrices } from "../../components/matrices.js";
import { drawNotice, formatProbability, getColour, makeRange } from "../../components/shared.js";
import { markup, render } from "../../markup.js";
import * as store from "../../store.js";

// The colour of a contribution: orange if it is positive, otherwise purple.
export const formatSignColour = (value) => `rgb(${getColour(value > 0 ? 0.84 : 0.16).join(" ")})`;

// The prediction after a change, such as "vit now predicts cat (81.0%)."
export function describePrediction({ run, predicted: [before, now], classes, now: shares }) {
  const probability = formatProbability(shares[classes.indexOf(now)]);
  return `${run} ${before === now ? "still" : "now"} predicts ${now} (${probability}).`;
}

// The payload of `createLinePlots` for `curves` { name, y, colour, dashed } of all layers, from 0 on. `x` names the layers,
// and `file` is the name of the CSV file.
export function makeLayerPlots(curves, { title, unit, x, decimals, file }) {
  const layers = makeRange(curves[0].y.length);
  const lines = curves.map((curve) => ({
    ...{
      run: curve.name,
      label: "",
      x: layers,
      faint: false,
      sign: "",
      points: true,
      read: true,
      epochs: null,
    },
    ...curve,
  }));
  const names = lines.map(({ name }) => name);
  const label = `${title} for ${names.join(", ")}`;
  const rows = layers.map((layer) => [layer, ...lines.map(({ y }) => y[layer])]);
  return {
    legend: [],
    note: "",
    problems: [],
    x: null,
    plots: [{ title, label, unit, x, whole: true, zero: true, decimals, lines }],
    csv: { name: file, rows: [["layer", ...names], ...rows] },
  };
}

// The legend of such curves.
export const drawCurveLegend = (curves) =>
  markup`<p class="vd-layer-legend">${
    curves.map(({ name, colour, dashed }) =>
      markup`<span><i class=${dashed ? "dashed" : ""} style="color: ${colour}"></i>${name}</span>`
    )
  }</p>`;

// A list of `options` [value, text] for the state key `key`, whose valid value is `chosen`.
export function drawSelect(key, options, chosen, className) {
  const choose = ({ target }) => store.set({ [key]: options[target.selectedIndex][0] });
  const drawOption = ([value, text]) =>
    markup`<option value=${value} .selected=${value === chosen}>${text}</option>`;
  return markup`<select class="vd-select ${className}" @change=${choose}>${options.map(drawOption)}</select>`;
}

// Return the functions of a view in `element`. The view's data name a file, which `getFile(data)` returns. `draw(data,
// file)` is called when the file is loaded, unless other data have arrived.
export function createFileView(element, getFile, draw) {
  let [current, url, file] = [null, "", null]; // the last data, and the promise of the loaded file

  function showError(message) {
    [current, url] = [null, ""];
    render(drawNotice(message), element);
  }

  async function load(data) {
    current = data;
    if (getFile(data).url !== url) {
      url = getFile(data).url;
      file = loadMatrices(url);
    }
    try {
      const loaded = await file;
      if (current === data) draw(data, loaded);
    } catch (error) {
      if (current === data) showError(error.message);
    }
  }

  return { render: load, showError };
}
