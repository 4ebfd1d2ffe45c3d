// The data of views that graphs compute in this browser: see graphs.py. They show the user's own images, and states of the
// example photos that were not recorded.
import { decode, encode } from "../page/explore/perturbation/changes.js";
import { locate, openFiles, startModuleWorker } from "./files.js";
import { showProgress } from "./progress.js";

const OWN_PREFIX = "own-";
const MAX_IMAGES = 3; // images that remain available for the button "back" of the browser
const MAX_POSITIONS = 2; // positions of an image's square whose files remain in memory
const NOT_AVAILABLE = "This image is no longer available. Choose it again.";
const NOT_COMPUTED = "This site does not compute this result for your image. The full version does.";
const NO_WORKER = "This browser cannot run models on this page. Another browser, or the full version, can.";
const RUNTIME = ["ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm.gz"].map((name) =>
  `site/vendor/${name}`
);
const MAGIC = { Uint16Array: "vdm1", Float16Array: "vdm1", Float32Array: "vdf1" }; // see page/components/matrix_file.py

// path -> { opened: promise of the worker's answer, url: of the preview, files: URLs of computed files by position, isInput }
const images = new Map();
const waiting = new Map(); // id -> function that receives the answer of the worker
const loaded = new Set(); // names of the models whose graphs were opened
let worker = null; // promise
let count = 0;

async function startWorker() {
  const found = await startModuleWorker("site/worker.js");
  found.onmessage = ({ data: { id, ...answer } }) => {
    if (id === undefined) return showProgress(answer);
    waiting.get(id)(answer);
    waiting.delete(id);
  };
  found.onerror = stopWaiting;
  return found;
}

function stopWaiting() {
  for (const receive of waiting.values()) receive({ error: NO_WORKER });
  waiting.clear();
  worker = null;
}

function send(message) {
  worker ??= startWorker();
  const id = ++count;
  worker.then((found) => found.postMessage({ id, ...message })).catch(stopWaiting);
  return new Promise((resolve) => waiting.set(id, resolve));
}

// Keep an image in the browser until `removeImage`, and return its path. An input is the crop of a model, of exactly the
// size that the model receives.
export function keepImage(file, isInput, path = `${OWN_PREFIX}${++count}`) {
  images.set(path, { url: "", files: new Map(), opened: send({ open: file, path }), isInput });
  return path;
}

export function removeImage(path) {
  const { url, files } = images.get(path);
  images.delete(path);
  send({ forget: path });
  [url, ...files.values()].flat().forEach((each) => URL.revokeObjectURL(each));
}

// Keep an image of the user in the browser, and return its `path`.
export function upload(file) {
  const path = keepImage(file, false);
  const own = [...images.keys()].filter((each) => each.startsWith(OWN_PREFIX) && !images.get(each).isInput);
  own.slice(0, -MAX_IMAGES).forEach(removeImage);
  return Promise.resolve({ path });
}

// The version of ONNX Runtime Web.
export const readVersion = async () => (await send({ version: true })).version;

// The list of the URLs of the files for a position `at`. Files of earlier positions are removed.
function listFiles({ files }, at) {
  const found = files.get(at) ?? [];
  files.delete(at);
  files.set(at, found);
  for (const [old, urls] of [...files].slice(0, -MAX_POSITIONS)) {
    files.delete(old);
    urls.forEach((each) => URL.revokeObjectURL(each));
  }
  return found;
}

export const isOwn = (image) => image?.source === "own";

// Keep the example photo of the file `name`, unless it is kept, and return its `path`.
export async function openPhoto({ source }, name) {
  if (images.has(source)) return source;
  return keepImage(await (await fetch(await locate(name))).blob(), false, source);
}

// Add a file to a list of URLs.
function makeFile(urls, parts, type = "application/octet-stream") {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  urls.push(url);
  return { url };
}

const toBytes = ({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength);

// A file of matrices (L, M, R, C): see page/components/matrix_file.py.
function makeMatrixFile(urls, magic, shape, bytes) {
  const header = new DataView(new ArrayBuffer(4 + 4 * shape.length));
  [...magic].forEach((letter, i) => header.setUint8(i, letter.charCodeAt(0)));
  shape.forEach((each, i) => header.setUint32(4 + 4 * i, each, true));
  return makeFile(urls, [header, bytes]);
}

// One file, or as many files as the recorded value `before`, each with the same number of layers.
function makeMatrixFiles(urls, { shape, data }, before) {
  const [bytes, magic] = [toBytes(data), MAGIC[data.constructor.name]];
  const [layers, ...rest] = [1, 1, 1, ...shape].slice(-4);
  if (!Array.isArray(before)) return makeMatrixFile(urls, magic, [layers, ...rest], bytes);
  const size = bytes.length / before.length;
  return before.map((_, i) =>
    makeMatrixFile(urls, magic, [layers / before.length, ...rest], bytes.subarray(i * size, (i + 1) * size))
  );
}

async function makePicture(urls, { shape: [, height, width], data }) {
  const size = width * height;
  const canvas = new OffscreenCanvas(width, height);
  const pixels = Uint8ClampedArray.from(
    { length: 4 * size },
    (_, i) => i % 4 === 3 ? 255 : data[(i % 4) * size + Math.floor(i / 4)],
  );
  canvas.getContext("2d").putImageData(new ImageData(pixels, width, height), 0, 0);
  return makeFile(urls, [await canvas.convertToBlob()], "image/png");
}

// Nested lists of the shape, of the values that `convert` returns.
function arrangeValues(shape, data, convert) {
  const [first, ...rest] = shape;
  if (first === undefined) return convert(data[0]);
  const size = data.length / first;
  return Array.from(
    { length: first },
    (_, i) => arrangeValues(rest, data.subarray(i * size, (i + 1) * size), convert),
  );
}

const roundTo = (value, digits) => Math.round(value * 10 ** digits) / 10 ** digits;

function writePatches({ shape, data }) {
  const cells = [...data].flatMap((isTrue, i) => isTrue ? [i] : []);
  return encode(cells, shape);
}

// Elements [row, column], from 1, of the true elements of a matrix.
function listPositions({ shape: [, columns], data }) {
  const found = [...data].flatMap((isTrue, i) => isTrue ? [i] : []);
  return found.map((i) => [Math.floor(i / columns) + 1, i % columns + 1]);
}

// A vector without the values that are NaN or -1, or nested lists of the shape.
const keep = ({ shape, data }, isKept) =>
  shape.length === 1 ? { data: data.filter(isKept), shape: [data.filter(isKept).length] } : { shape, data };

const writers = {
  constant: (_urls, _output, { value }) => structuredClone(value),
  numbers(_, output, { digits }) {
    const { shape, data } = keep(output, (value) => typeof value === "bigint" || !Number.isNaN(value));
    return arrangeValues(shape, data, (value) => roundTo(Number(value), digits));
  },
  choice(_, output, { choices }) {
    const { shape, data } = keep(output, (index) => index >= 0);
    return arrangeValues(shape, data, (index) => choices[Number(index)]);
  },
  positions: (_, output) => listPositions(output),
  patches: (_, output) => writePatches(output),
  matrices: (urls, output, _, before) => makeMatrixFiles(urls, output, before),
  pixels: (urls, output) => makePicture(urls, output),
};
const HIDDEN = "hidden"; // kind of an output for other graphs

// Write the outputs of a graph into a copy of an answer, or of the data of one model.
export async function fill(answer, urls, { outputs }, found) {
  const filled = structuredClone(answer);
  for (const [i, { part, path, kind, ...constants }] of outputs.entries()) {
    if (kind === HIDDEN) continue;
    const names = [part, ...path.split(".")];
    const last = names.pop();
    const place = names.reduce((each, name) => each[name], filled);
    if (kind === "inserted") place.splice(Number(last), 0, structuredClone(constants.value));
    else place[last] = await writers[kind](urls, found[i], constants, place[last]);
  }
  return filled;
}

function encodeHeads({ shape: [layers, heads] }, text) {
  const mask = Array(layers * heads).fill(0);
  for (const [layer, head] of text.split(" ").map((pair) => pair.split(".").map(Number))) {
    if (layer <= layers && head <= heads) mask[(layer - 1) * heads + head - 1] = 1;
  }
  return mask;
}

function encodePatches({ shape: [rows, columns] }, text) {
  const removed = decode(text, [rows, columns]);
  return Array.from({ length: rows * columns }, (_, i) => removed.includes(i) ? 1 : 0);
}

// The values of the tensor of an input, for the value of its state key.
const encoders = {
  class: ({ choices }, value) => [choices.indexOf(value)],
  choice: ({ choices }, value) => [choices.indexOf(value)],
  flag: (_, value) => [Number(value)],
  number: (_, value) => [value ?? 0],
  heads: encodeHeads,
  patches: encodePatches,
  photo: ({ choices }, { source, photo }) => [choices.indexOf(photo ?? source)],
  value: (_, values) => values, // of a loop, see tasks.js
};

const encodeInputs = ({ inputs }, values) =>
  inputs.map(({ key, kind, type, shape, ...constants }) => ({
    name: key,
    type,
    shape,
    data: encoders[kind]({ shape, ...constants }, values[key]),
  }));

// Run a graph of the `entry` for an image, and return its outputs. The graph `changes` of the entry changes the image before.
// Raises `Error` with a sentence.
export async function runGraph(graph, { changes }, { path, at }, values) {
  const graphs = changes ? [graph, changes] : [graph];
  const names = graphs.flatMap(({ file, weights }) => [file, ...Object.keys(weights)]);
  const files = await openFiles([...RUNTIME, ...names.map((name) => `data/graphs/${name}`)]);
  const change = changes && { graph: changes, inputs: encodeInputs(changes, values) };
  const inputs = encodeInputs(graph, values);
  const run = images.get(path).isInput ? { ...graph, crop: 1 } : graph;
  const { outputs, error } = await send({ run, path, at, files, inputs, change });
  if (error) throw new Error(error);
  loaded.add(graph.run);
  return outputs;
}

const formatSize = ({ weights }) =>
  `${(Object.values(weights).reduce((sum, each) => sum + each, 0) / 1e6).toFixed(0)} MB`;

// Data with a list that has one element per model: only loaded models compute, and the chosen one is loaded.
async function computeList({ data }, entry, urls, image, values) {
  const { graphs, models: place, echoes } = entry;
  const { isInput } = images.get(image.path);
  const now = graphs.filter(({ run }) => run === values.model || (!isInput && loaded.has(run)));
  const found = [];
  for (const graph of now) {
    const recorded = { data: data[place].find((each) => each.run === graph.run) };
    found.push((await fill(recorded, urls, graph, await runGraph(graph, entry, image, values))).data);
  }
  const others = graphs.filter((graph) => !now.includes(graph));
  const list = others.map((graph) => `${graph.run} (${formatSize(graph)})`).join(", ");
  const offer = others.length ? `Choose another model to load it: ${list}.` : "";
  const own = Object.fromEntries(echoes.map((key) => [key, values[key]]));
  const other = "label" in data ? { label: null } : {}; // the class of the recorded photo
  return { ...data, ...own, ...other, [place]: found, problems: [], offer };
}

async function computeImage(data, image) {
  const { size, preview, error } = await image.opened;
  if (error) return { error };
  image.url ||= URL.createObjectURL(preview);
  return { data: { ...data, image: { url: image.url }, size, description: "Your photo.", label: null } };
}

// Return the answer of a view for an image that is kept. `values` are the values of its state keys, and `recorded` is the
// answer for the first photo and the start values of inputs, in the same state otherwise. `entry` describes the graphs of
// the view, or is undefined.
export async function compute(name, image, values, recorded, entry) {
  const known = images.get(image.path);
  if (!known) return { error: NOT_AVAILABLE };
  if (name === "image_input") return computeImage(recorded.data, known);
  if (!entry || (!entry.graphs.length && !entry.holds)) return { error: NOT_COMPUTED };
  if (recorded.error || !entry.graphs.length) return recorded;
  try {
    const urls = listFiles(known, image.at);
    if (entry.models) {
      return { ...recorded, data: await computeList(recorded, entry, urls, image, values) };
    }
    const [graph] = entry.graphs;
    return await fill(recorded, urls, graph, await runGraph(graph, entry, image, values));
  } catch (error) {
    return { error: error.message };
  }
}
