// Comparison of the graphs in this browser with the recorded results of PyTorch: both receive the crops of the example
// photos (inputs.json of graphs.py).
import { decodeValues, loadMatrices } from "../page/components/matrices.js";
import { keys, parsePayload } from "../page/store.js";
import { keepImage, readVersion, removeImage } from "./own_images.js";
import { completeUrls, description, find, findGraphs, graphs, load } from "./recorded.js";

export const TOLERANCE = 0.001; // of numbers up to 1, and relative to larger numbers
const NO_GRAPH = "This site cannot run the model in a browser.";
const NOT_LOADED = "The check could not load its files. Check the connection, then try again.";
const PROBABILITIES = ["probabilities", "shares"]; // last names of their paths

const readPath = (data, path) => path.split(".").reduce((each, name) => each[name], data);

async function loadBlob(url) {
  const response = await fetch(url).catch(() => ({ ok: false }));
  if (!response.ok) throw new Error(NOT_LOADED);
  return await response.blob();
}

async function readPixels({ url }) {
  const bitmap = await createImageBitmap(await loadBlob(url), { colorSpaceConversion: "none" });
  const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
  context.drawImage(bitmap, 0, 0);
  const { data } = context.getImageData(0, 0, bitmap.width, bitmap.height); // 4 values per pixel
  return data.filter((_, i) => i % 4 < 3);
}

// The values of the files of matrices. Without `areLarge`, files that are not part of the answer are left out.
async function readMatrices(found, expected, areLarge) {
  const isRead = [expected].flat().map(({ url }) => areLarge || url.startsWith("data:"));
  const files = [found].flat().filter((_, i) => isRead[i]);
  const parts = await Promise.all(files.map(async ({ url }) => [...decodeValues(await loadMatrices(url))]));
  return parts.flat();
}

// By kind of an output: its values as a list.
const readers = {
  numbers: (found) => [found].flat(Infinity),
  choice: (found) => [found].flat(),
  matrices: readMatrices,
  pixels: readPixels,
};

// By kind of an output: the largest difference of equal values.
const tolerances = {
  numbers: (value, { digits }) => TOLERANCE * Math.max(1, Math.abs(value)) + 10 ** -digits,
  matrices: () => TOLERANCE,
  choice: () => 0,
  pixels: () => 0,
};

function computeDifference(actual, expected) {
  if (Object.is(actual, expected)) return 0;
  const difference = Math.abs(actual - expected);
  return Number.isFinite(difference) ? difference : Infinity; // also for names of classes, and NaN
}

function addDifferences(row, actual, expected, getTolerance) {
  for (let i = 0; i < Math.max(actual.length, expected.length); i++) {
    const difference = computeDifference(actual[i], expected[i]);
    row.count++;
    row.largest = Math.max(row.largest, difference);
    if (difference > getTolerance(expected[i])) row.above++;
  }
}

const getKind = ({ kind, path }) => PROBABILITIES.includes(path.split(".").at(-1)) ? "probabilities" : kind;

// Add the differences of a view to `rows`, by kind of result. `input` is the crop of the recorded `photo`.
async function compareView(rows, name, model, photo, input, areLarge) {
  const makeState = (image) =>
    description.needs[name].map((key) => ({ ...graphs[name], image, model })[key] ?? keys[key].start);
  const entry = await findGraphs(name, makeState(null));
  const graph = entry?.graphs.find(({ run }) => run === model);
  // For example, a convolutional model has no attention, and changed images are not computed from the input of the model.
  if (!graph?.is_model_input) return;
  const answers = [];
  for (const image of [photo, input]) {
    const { data, error } = await find(name, JSON.stringify([0, ...makeState(image)]));
    if (error) throw new Error(error);
    answers.push(entry.models ? data[entry.models].find(({ run }) => run === model) : data);
  }
  for (const output of graph.outputs.filter(({ kind, part }) => kind in readers && part === "data")) {
    const [expected, actual] = answers.map((data) => readPath(data, output.path));
    const read = (found) => readers[output.kind](found, expected, areLarge);
    const row = rows[getKind(output)] ??= { count: 0, largest: 0, above: 0 };
    addDifferences(
      row,
      await read(actual),
      await read(expected),
      (value) => tolerances[output.kind](value, output),
    );
  }
}

async function loadInputs() {
  const value = await load("data/graphs/inputs.json").catch(() => {
    throw new Error(NOT_LOADED);
  });
  return parsePayload({ value: await completeUrls(value) });
}

// Run the graphs of `model` for all example photos, and compare all views. All matrices of the first photo are compared, and
// small ones of the others. Return { rows: kind -> { count, largest, above (values above the tolerance) }, photos, torch,
// export, runtime }. `report(number, views)` is called for each view. Raises `Error` with a sentence.
export async function compareModel(model, report) {
  const { photos, ...versions } = await loadInputs();
  const rows = {};
  const paths = [];
  try {
    for (const { inputs } of photos) {
      if (!inputs[model]) throw new Error(NO_GRAPH);
      paths.push(keepImage(await loadBlob(inputs[model].url), true));
    }
    // All photos of a view follow each other, because the worker keeps few graphs open.
    for (const [i, name] of Object.keys(graphs).entries()) {
      report(i + 1, Object.keys(graphs).length);
      await Promise.all(photos.map(({ image }, k) => {
        const input = { source: "own", path: paths[k], at: image.at, photo: image.source };
        return compareView(rows, name, model, image, input, k === 0);
      }));
    }
  } finally {
    paths.forEach(removeImage);
  }
  if (!Object.keys(rows).length) throw new Error(NO_GRAPH);
  return { rows, photos: photos.length, ...versions, runtime: await readVersion() };
}
