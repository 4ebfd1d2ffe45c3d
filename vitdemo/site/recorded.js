// Answers recorded by record.py to the requests of the store.
import { parsePayload } from "../page/store.js";
import { locate } from "./files.js";
import * as ownImages from "./own_images.js";
import * as tasks from "./tasks.js";

const NOT_RECORDED =
  "This site contains only recorded results, and not this one. The full version of vitdemo computes it.";
const NOT_LOADED = "This result could not be loaded. Check the connection, then try again.";

// Replace the names of files by their URLs.
export const completeUrls = async ({ text, files }) => ({
  text,
  files: await Promise.all(files.map(async ({ url }) => ({ url: await locate(url) }))),
});

export const { models, depths, image, graphs, photos, description } = JSON.parse(
  document.querySelector("#site").textContent,
);
const loaded = new Map(); // name of a file -> promise of its JSON

export function load(name) {
  const found = loaded.get(name) ?? locate(name).then(fetch).then((response) => response.json());
  loaded.set(name, found);
  found.catch(() => loaded.delete(name));
  return found;
}

// Combine the curves of single runs into the plots of all `runs`.
function joinCurves(parts, runs) {
  const drawn = parts.map(({ data }) => data).filter(({ plots }) => plots);
  if (!drawn.length) return parts[0];
  const plots = {};
  let count = 0; // number of histories before those of the part
  for (const part of drawn) {
    for (const { title, lines, marks, ...plot } of part.plots) {
      plots[title] ??= { ...plot, title, label: `${title} of ${runs.join(", ")}`, lines: [], marks: [] };
      plots[title].lines.push(...lines.map((line) => ({ ...line, x: line.x + count })));
      plots[title].marks.push(...marks);
    }
    count += part.x.length;
  }
  const data = { ...drawn[0], x: drawn.flatMap(({ x }) => x), plots: Object.values(plots) };
  return { data };
}

// Views of several runs whose answer follows from the answers for single runs.
const combined = { training_curves: joinCurves, training_runs: ([{ data }]) => ({ data }) };

// Names of models and runs are recorded in alphabetical order.
const formatState = (values) =>
  JSON.stringify(values.map((value) => Array.isArray(value) ? [...value].sort() : value));

// Return the recorded answer of the view `name` for the `values` of its state keys, or null.
async function findRecorded(name, values) {
  const answers = await load(`data/${name}.json`);
  const get = (wanted) => answers["*"] ?? answers[formatState(wanted)];
  const parts = combined[name] && !get(values) ? values[0].map((run) => [[run]]) : [values];
  const paths = parts.map(get);
  if (!paths.length || !paths.every(Boolean)) return null;
  const found = await Promise.all(paths.map((path) => load(`data/answers/${path}`)));
  const completed = await Promise.all(found.map(completeUrls));
  const answer = completed.map((value) => parsePayload({ value }));
  return answer.length > 1 ? combined[name](answer, values[0]) : answer[0];
}

// Return the answer that graphs compute, or null if the view has no graphs for the state.
async function findComputed(name, values) {
  const needed = description.needs[name];
  const change = (changes) => needed.map((key, i) => key in changes ? changes[key] : values[i]);
  const state = Object.fromEntries(needed.map((key, i) => [key, values[i]]));
  const isOwn = ownImages.isOwn(state.image);
  const hasPhoto = state.image?.source in photos; // graphs read no ground truth image
  if (!isOwn && (!(name in graphs) || (state.image && !hasPhoto))) return null;
  const recorded = await findRecorded(name, change({ ...graphs[name], image }));
  if (!recorded) return null;
  const entry = await findGraphs(name, values);
  if (isOwn) return ownImages.compute(name, state.image, state, recorded, entry);
  if (!entry?.graphs.length) return null;
  const path = await ownImages.openPhoto(state.image, photos[state.image.source]);
  return ownImages.compute(name, { ...state.image, path }, state, recorded, entry);
}

// The answer for an image after a link has named a model that is not available.
async function findImage(value, missing) {
  const found = await find("image_input", JSON.stringify([0, value, ""]));
  if (found.error) return found;
  const exists = models.others.includes(missing);
  return { ...found, data: { ...found.data, missing: { name: missing, exists } } };
}

// Return the answer of the view `name`. `key` is the JSON of a version and of the values of its state keys.
export async function find(name, key) {
  try {
    const [, ...values] = JSON.parse(key);
    if (name === "image_input" && values.at(-1)) return await findImage(...values);
    const isOwn = values.some(ownImages.isOwn);
    const found = (!isOwn && await findRecorded(name, values)) || await findComputed(name, values);
    if (!found) return { error: NOT_RECORDED };
    const state = Object.fromEntries(description.needs[name].map((key, i) => [key, values[i]]));
    return await tasks.addResults(name, state, found);
  } catch {
    return { error: NOT_LOADED };
  }
}

// The entry of graphs.py for the view `name` and the `values` of its state keys, or undefined.
export async function findGraphs(name, values) {
  if (!(name in graphs)) return undefined;
  const entries = await load(`data/graphs/${name}.json`);
  const isInput = (key) => key === "image" || key in graphs[name];
  return entries[formatState(values.map((value, i) => isInput(description.needs[name][i]) ? null : value))];
}

export const isPrivate = true;
export const upload = Object.keys(graphs).length ? ownImages.upload : undefined;

export async function ask({ id, state, views }) {
  const entries = Object.entries(views).map(async ([name, key]) => [name, { ...await find(name, key), key }]);
  const answer = {
    id,
    models: state.models === models.stamp ? null : models,
    model: depths[state.model] ?? { name: state.model, layers: 0, layer: 0 },
    views: Object.fromEntries(await Promise.all(entries)),
  };
  return { text: JSON.stringify(answer), files: [] };
}

export const act = ({ id }) => ({
  text: JSON.stringify({ id, error: NOT_RECORDED, views: {} }),
  files: [],
});

async function* runTask({ id, task, state }) {
  const loops = (await load("data/graphs/tasks.json"))[task]?.[state.model];
  if (!loops) return yield { end: true, data: null, error: NOT_RECORDED };
  const { image } = state;
  const path = ownImages.isOwn(image) ? image.path : await ownImages.openPhoto(image, photos[image.source]);
  yield* tasks.runTask(id, loops, { ...image, path }, state);
}

// Yield the messages of a task.
export async function* start(request) {
  const { id } = request;
  const makeMessage = (message) => ({ text: JSON.stringify({ id, ...message }), files: [] });
  try {
    for await (const message of runTask(request)) yield makeMessage(message);
  } catch (error) {
    yield makeMessage({ end: true, data: null, error: error.message });
  }
}

export const cancel = ({ id }) => tasks.stopTask(id);
