// Runs graphs of graphs.py on the user's images. The messages of the page:
//
//   { id, open: file, path }           -> { id, size: [width, height], preview: file }
//   { id, forget: path }               -> { id }
//   { id, run: graph, path, at, files, inputs, change } -> { id, outputs: [{ shape, data } or null, ...] }
//   { id, version: true }              -> { id, version } of the runtime
//
// `at` is the position of the square. An input is { name, type, shape, data }. Constant outputs are null. `change` is
// undefined, or { graph, inputs } of a graph that changes the image for the input `changed_crop`.
// Every answer may be { id, error: text } instead. While files are loaded, the page also receives { name, loaded, size }.
import { cropAndResize, findSquare, joinChannels, limitSquare, separateChannels } from "./pixels.js";
import * as ort from "./vendor/ort.wasm.min.mjs";

const MAX_SESSIONS = 3; // with weights, of which each session has a copy
const NOT_READ =
  "This browser cannot read the file as an image. Save it as PNG or JPEG, then choose it again.";
const NOT_LOADED = "The model could not be loaded. Check the connection, then try again.";
const NOT_COMPUTED =
  "This browser cannot run the model, or has too little memory. Another browser may be able to.";
const FOLDER = "data/graphs/";
const MAX_CROPS = 20;
const MIN_REPORTED = 1e5; // bytes whose loading is shown
const ERRORS = 3; // severity of messages; warnings name operations that the runtime does not optimise
const PREVIEW_SIDE = 640; // pixels, because browsers keep shown images decoded
const GZIP = [0x1f, 0x8b]; // first bytes; a server may unpack the file itself
const images = new Map(); // path -> file
let decoded = { path: "", bitmap: null }; // the last decoded image, which may need 100 MB
const crops = new Map(); // text -> Uint8Array
let square = { key: "", image: null }; // the last square
let changed = { key: "", image: null }; // the last changed image; null: without changes
const files = new Map(); // name -> promise of the bytes
const sessions = new Map(); // name of a graph -> { session, hasWeights }, the latest last
let runtime = null; // promise

async function startRuntime(sources) {
  const name = "site/vendor/ort-wasm-simd-threaded";
  const report = startReport("the runtime");
  const packed = new Uint8Array(await loadBytes(sources[`${name}.wasm.gz`], report));
  report(0, true);
  const isPacked = GZIP.every((byte, i) => packed[i] === byte);
  ort.env.wasm.numThreads = 1; // threads need response headers that plain file servers do not send
  ort.env.wasm.wasmPaths = { mjs: getUrl(sources[`${name}.mjs`]) };
  ort.env.wasm.wasmBinary = isPacked ? await decompress(packed) : packed.buffer;
}

const decompress = (bytes) =>
  new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();

// Return a function that reports further loaded bytes of `name` to the page. `size` is 0 if it is not known until the last
// report.
function startReport(name, size = 0) {
  let loaded = 0;
  return (count, isLast = false) => {
    loaded += count;
    postMessage({ name, loaded, size: isLast ? loaded : size });
  };
}

const getUrl = (source) => source instanceof Blob ? URL.createObjectURL(source) : source;

// Read a file of `size` bytes (0: not known), and call `report` with the number of bytes of each part. `source` is a URL, or
// a Blob (see files.js).
async function loadBytes(source, report = () => {}, size = 0) {
  try {
    const response = await fetch(getUrl(source));
    if (!response.ok) throw new Error(`status ${response.status}`);
    const parts = [];
    for await (const part of readParts(response.body)) {
      parts.push(part);
      report(part.length);
    }
    const bytes = await new Blob(parts).arrayBuffer();
    if (size && bytes.byteLength !== size) throw new Error("the file is incomplete");
    return bytes;
  } catch {
    throw new Error(NOT_LOADED);
  }
}

async function* readParts(stream) { // Safari cannot iterate a stream
  const reader = stream.getReader();
  for (let found = await reader.read(); !found.done; found = await reader.read()) yield found.value;
}

// Return the bytes of the weights by file name. Files remain in memory, because several graphs share them.
function loadWeights({ run, weights }, sources) {
  const missing = Object.keys(weights).filter((name) => !files.has(name));
  const size = missing.reduce((sum, name) => sum + weights[name], 0);
  const report = size < MIN_REPORTED ? undefined : startReport(run, size);
  const load = (name) => {
    const found = files.get(name) ?? loadBytes(sources[FOLDER + name], report, weights[name]);
    files.set(name, found);
    found.catch(() => files.delete(name));
    return found;
  };
  return Promise.all(
    Object.keys(weights).map(async (path) => ({ path, data: new Uint8Array(await load(path)) })),
  );
}

async function openSession(graph, sources) {
  runtime ??= startRuntime(sources);
  await runtime.catch((error) => {
    runtime = null;
    throw error;
  });
  const externalData = await loadWeights(graph, sources);
  const bytes = await loadBytes(sources[FOLDER + graph.file]);
  return ort.InferenceSession.create(new Uint8Array(bytes), { externalData, logSeverityLevel: ERRORS });
}

// Return the session of a graph; of more than `MAX_SESSIONS`, the one that was used longest ago is closed.
async function getSession(graph, sources) {
  const hasWeights = Object.keys(graph.weights).length > 0;
  const { session } = sessions.get(graph.file) ?? { session: await openSession(graph, sources) };
  sessions.delete(graph.file);
  sessions.set(graph.file, { session, hasWeights });
  const heavy = [...sessions].filter(([, each]) => each.hasWeights);
  for (const [file, { session: old }] of heavy.slice(0, -MAX_SESSIONS)) {
    sessions.delete(file);
    await old.release();
  }
  return session;
}

// Decode an image upright and without a colour profile.
async function decodeImage(path) {
  if (decoded.path !== path) {
    decoded.bitmap?.close();
    decoded = { path: "", bitmap: null };
    const bitmap = await createImageBitmap(images.get(path), { colorSpaceConversion: "none" }).catch(() => {
      throw new Error(NOT_READ);
    });
    decoded = { path, bitmap };
  }
  return decoded.bitmap;
}

// Draw a part of an image over white.
function drawOverWhite(bitmap, [left, top, width, height], [newWidth, newHeight]) {
  const canvas = new OffscreenCanvas(newWidth, newHeight);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.imageSmoothingQuality = "high";
  context.fillStyle = "white";
  context.fillRect(0, 0, newWidth, newHeight);
  context.drawImage(bitmap, left, top, width, height, 0, 0, newWidth, newHeight);
  return canvas;
}

async function open(file, path) {
  images.set(path, file);
  const bitmap = await decodeImage(path);
  const size = [bitmap.width, bitmap.height];
  const scale = Math.min(1, PREVIEW_SIDE / Math.max(...size));
  const small = size.map((length) => Math.max(1, Math.round(scale * length)));
  const preview = drawOverWhite(bitmap, [0, 0, ...size], small);
  return { size, preview: await preview.convertToBlob({ type: "image/jpeg", quality: 0.9 }) };
}

function readSquare(bitmap, at) {
  const { left, top, side } = findSquare(bitmap.width, bitmap.height, at);
  const context = drawOverWhite(bitmap, [left, top, side, side], [side, side]).getContext("2d");
  const { data } = context.getImageData(0, 0, side, side); // 4 values per pixel
  const rgb = new Uint8Array(side * side * 3);
  for (let source = 0, target = 0; source < data.length; source++) {
    if (source % 4 < 3) rgb[target++] = data[source];
  }
  return { data: rgb, width: side, height: side };
}

// The square of an image as models receive it, which models of several sizes share.
async function getSquare(path, at) {
  const key = JSON.stringify([path, at]);
  if (square.key !== key) square = { key, image: limitSquare(readSquare(await decodeImage(path), at)) };
  return square.image;
}

// The input of a graph.
async function getCrop(path, at, { size, crop, interpolation }) {
  const key = JSON.stringify([path, at, size, crop, interpolation]);
  if (!crops.has(key)) {
    if (crops.size >= MAX_CROPS) crops.clear();
    crops.set(key, separateChannels(cropAndResize(await getSquare(path, at), size, crop, interpolation)));
  }
  return crops.get(key);
}

const toBigInts = (values) => BigInt64Array.from(values, BigInt);
const toArray = {
  int64: toBigInts,
  float32: Float32Array.from.bind(Float32Array),
  bool: Uint8Array.from.bind(Uint8Array),
};

const makeCropTensor = (data, { size }) => new ort.Tensor("uint8", data, [3, size, size]);

async function runSession(graph, sources, crops, inputs) {
  const session = await getSession(graph, sources);
  const tensors = inputs.map((
    { name, type, shape, data },
  ) => [name, new ort.Tensor(type, toArray[type](data), shape)]);
  return session.run({ ...crops, ...Object.fromEntries(tensors) });
}

async function computeChangedImage({ path, at, files: sources, change: { graph, inputs } }) {
  const canvas = makeCropTensor(await getCrop(path, at, graph), graph);
  const found = await runSession(graph, sources, { crop: canvas }, inputs);
  if (!found["data.is_changed"].data[0]) return null;
  const { dims: [, height, width], data } = found["data.changed"];
  return { data: joinChannels(data), width, height };
}

// The crop for `graph` of the image that the graph of `change` changes; without changes, that of the image. All models share
// the changed image.
async function computeChangedCrop(graph, message) {
  const { path, at, change } = message;
  const key = JSON.stringify([path, at, change.graph.file, change.inputs]);
  if (changed.key !== key) changed = { key, image: await computeChangedImage(message) };
  if (!changed.image) return getCrop(path, at, graph);
  return separateChannels(cropAndResize(changed.image, graph.size, graph.crop, graph.interpolation));
}

async function runGraph(graph, message) {
  const { path, at, files: sources, inputs, change } = message;
  const crops = { crop: makeCropTensor(await getCrop(path, at, graph), graph) };
  if (change) crops.changed_crop = makeCropTensor(await computeChangedCrop(graph, message), graph);
  const found = await runSession(graph, sources, crops, inputs);
  const outputs = graph.outputs.map(({ part, path }) => found[`${part}.${path}`]);
  return { outputs: outputs.map((each) => each ? { shape: [...each.dims], data: each.data } : null) };
}

function removeImage(path) {
  images.delete(path);
  if (decoded.path === path) {
    decoded.bitmap.close();
    decoded = { path: "", bitmap: null };
  }
  for (const key of crops.keys()) if (JSON.parse(key)[0] === path) crops.delete(key);
  return {};
}

const answer = (message) => {
  if (message.open) return open(message.open, message.path);
  if (message.forget) return removeImage(message.forget);
  if (message.version) return { version: ort.env.versions.web };
  return runGraph(message.run, message);
};

let last = Promise.resolve(); // a session can run only once at a time
self.onmessage = ({ data: message }) => {
  last = last.then(async () => {
    try {
      postMessage({ id: message.id, ...await answer(message) });
    } catch (error) {
      const isKnown = [NOT_READ, NOT_LOADED].includes(error.message);
      postMessage({ id: message.id, error: isKnown ? error.message : NOT_COMPUTED });
    }
  });
};
