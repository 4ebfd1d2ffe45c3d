// The data of views for the user's own images, which graphs compute in this browser: see graphs.py.
import { showProgress } from "./progress.js";

const MAX_IMAGES = 3; // images that remain available for the button "back" of the browser
const MAX_POSITIONS = 2; // positions of an image's square whose files remain in memory
const NOT_AVAILABLE = "This image is no longer available. Choose it again.";
const NOT_COMPUTED =
  "This site computes predictions and attention for your image, but not this result. The full version computes it.";
const NO_WORKER = "This browser cannot run models on this page. Another browser, or the full version, can.";
const MAGIC = "vdm1"; // see page/components/matrix_file.py

// path -> { opened: promise of the worker's answer, url: of the image, files: URLs of computed files by position }
const images = new Map();
const waiting = new Map(); // id -> function that receives the answer of the worker
const loaded = new Set(); // names of the models whose graphs were opened
let worker = null;
let count = 0;

function startWorker() {
  const found = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  found.onmessage = ({ data: { id, ...answer } }) => {
    if (id === undefined) return showProgress(answer);
    waiting.get(id)(answer);
    waiting.delete(id);
  };
  found.onerror = () => {
    for (const receive of waiting.values()) receive({ error: NO_WORKER });
    waiting.clear();
    worker = null;
  };
  return found;
}

function send(message) {
  worker ??= startWorker();
  const id = ++count;
  return new Promise((resolve) => {
    waiting.set(id, resolve);
    worker.postMessage({ id, ...message });
  });
}

// Keep an image of the user in the browser, and return its `path`.
export function upload(file) {
  const path = `own-${++count}`;
  images.set(path, { url: URL.createObjectURL(file), files: new Map(), opened: send({ open: file, path }) });
  for (const [old, { url, files }] of [...images].slice(0, -MAX_IMAGES)) {
    images.delete(old);
    send({ forget: old });
    [url, ...files.values()].flat().forEach((each) => URL.revokeObjectURL(each));
  }
  return Promise.resolve({ path });
}

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

// Add a file to a list of URLs.
function makeFile(urls, parts, type = "application/octet-stream") {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  urls.push(url);
  return { url };
}

const toBytes = ({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength);

// A file of matrices (L, M, R, C) of float16 values: see page/components/matrix_file.py.
function makeMatrixFile(urls, shape, bytes) {
  const header = new DataView(new ArrayBuffer(4 + 4 * shape.length));
  [...MAGIC].forEach((letter, i) => header.setUint8(i, letter.charCodeAt(0)));
  shape.forEach((each, i) => header.setUint32(4 + 4 * i, each, true));
  return makeFile(urls, [header, bytes]);
}

// One file, or as many files as the recorded value `before`, each with the same number of layers.
function makeMatrixFiles(urls, { shape: [layers, ...rest], data }, before) {
  const bytes = toBytes(data);
  if (!Array.isArray(before)) return makeMatrixFile(urls, [layers, ...rest], bytes);
  const size = bytes.length / before.length;
  return before.map((_, i) =>
    makeMatrixFile(urls, [layers / before.length, ...rest], bytes.subarray(i * size, (i + 1) * size))
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

const writers = {
  numbers: (_, { shape, data }, { digits }) =>
    arrangeValues(shape, data, (value) => Math.round(value * 10 ** digits) / 10 ** digits),
  choice: (_, { shape, data }, { choices }) => arrangeValues(shape, data, (index) => choices[Number(index)]),
  matrices: (urls, output, _, before) => makeMatrixFiles(urls, output, before),
  pixels: (urls, output) => makePicture(urls, output),
};

// Write the outputs of a graph into a copy of recorded data.
async function fill(data, urls, { outputs }, found) {
  const filled = structuredClone(data);
  for (const [i, { path, kind, ...constants }] of outputs.entries()) {
    const names = path.split(".");
    const last = names.pop();
    const place = names.reduce((each, name) => each[name], filled);
    place[last] = await writers[kind](urls, found[i], constants, place[last]);
  }
  return filled;
}

async function runGraph(graph, path, at) {
  const root = new URL("data/graphs/", document.baseURI).href;
  const { outputs, error } = await send({ run: graph, path, at, root });
  if (error) throw new Error(error);
  loaded.add(graph.run);
  return outputs;
}

const formatSize = ({ weights }) =>
  `${(Object.values(weights).reduce((sum, each) => sum + each, 0) / 1e6).toFixed(0)} MB`;

// Data with a list that has one element per model: only loaded models compute, and the chosen one is loaded.
async function computeList(data, { graphs, models: place }, urls, { path, at }, model) {
  const now = graphs.filter((graph) => graph.run === model || loaded.has(graph.run));
  const found = [];
  for (const graph of now) {
    const recorded = data[place].find((each) => each.run === graph.run);
    found.push(await fill(recorded, urls, graph, await runGraph(graph, path, at)));
  }
  const others = graphs.filter((graph) => !now.includes(graph));
  const list = others.map((graph) => `${graph.run} (${formatSize(graph)})`).join(", ");
  const offer = others.length ? `Choose another model to load it: ${list}.` : "";
  return { ...data, [place]: found, label: null, problems: [], offer };
}

async function computeImage(data, image) {
  const { size, error } = await image.opened;
  if (error) return { error };
  return { data: { ...data, image: { url: image.url }, size, description: "Your photo.", label: null } };
}

// Return the answer of a view for an own image. `recorded` is the answer for the first photo, in the same state otherwise.
// `entry` describes the graphs of the view, or is undefined.
export async function compute(name, value, model, recorded, entry) {
  const image = images.get(value.path);
  if (!image) return { error: NOT_AVAILABLE };
  if (name === "image_input") return computeImage(recorded.data, image);
  if (!entry || (!entry.graphs.length && !recorded.error)) return { error: NOT_COMPUTED };
  if (recorded.error) return recorded;
  try {
    const urls = listFiles(image, value.at);
    if (entry.models) {
      return { ...recorded, data: await computeList(recorded.data, entry, urls, value, model) };
    }
    const [graph] = entry.graphs;
    return {
      ...recorded,
      data: await fill(recorded.data, urls, graph, await runGraph(graph, value.path, value.at)),
    };
  } catch (error) {
    return { error: error.message };
  }
}
