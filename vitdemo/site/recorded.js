// Answers recorded by record.py to the requests of the store. URLs are relative to the document.
import { parsePayload } from "../page/store.js";
import * as ownImages from "./own_images.js";

const NOT_RECORDED =
  "This site contains only recorded results, and not this one. The full version of vitdemo computes it.";
const NOT_LOADED = "This result could not be loaded. Check the connection, then choose it again.";

// Make the URLs of files absolute, because style sheets would resolve them relative to themselves.
export const completeUrls = ({ text, files }) => ({
  text,
  files: files.map(({ url }) => ({ url: new URL(url, document.baseURI).href })),
});

const { models, depths, image, graphs, description } = JSON.parse(
  document.querySelector("#site").textContent,
);
const loaded = new Map(); // URL -> promise of its JSON

function load(url) {
  const found = loaded.get(url) ??
    fetch(url).then((response) => response.json());
  loaded.set(url, found);
  found.catch(() => loaded.delete(url));
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

// Return the recorded answer of the view `name`. `key` is the JSON of a version and of the values of its state keys.
async function find(name, key) {
  try {
    const [, ...state] = JSON.parse(key);
    const index = state.findIndex(ownImages.isOwn);
    if (index >= 0) return await findOwn(name, state, index);
    const answers = await load(`data/${name}.json`);
    const get = (wanted) => answers["*"] ?? answers[formatState(wanted)];
    const parts = combined[name] && !get(state) ? state[0].map((run) => [[run]]) : [state];
    const paths = parts.map(get);
    if (!paths.length || !paths.every(Boolean)) return { error: NOT_RECORDED };
    const values = await Promise.all(paths.map((path) => load(`data/answers/${path}`)));
    const found = values.map((value) => parsePayload({ value: completeUrls(value) }));
    return found.length > 1 ? combined[name](found, state[0]) : found[0];
  } catch {
    return { error: NOT_LOADED };
  }
}

// The answer for an own image, which is at the position `index` of the state's values.
async function findOwn(name, state, index) {
  const changeImage = (value) => state.map((each, i) => i === index ? value : each);
  const entries = graphs.includes(name) ? await load(`data/graphs/${name}.json`) : {};
  const model = state[description.needs[name].indexOf("model")];
  const recorded = await find(name, JSON.stringify([0, ...changeImage(image)]));
  return ownImages.compute(name, state[index], model, recorded, entries[formatState(changeImage(null))]);
}

export const isPrivate = true;
export const upload = graphs.length ? ownImages.upload : undefined;

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

const makeRefusal = (id, fields) => ({
  text: JSON.stringify({ id, error: NOT_RECORDED, ...fields }),
  files: [],
});

export const act = ({ id }) => makeRefusal(id, { views: {} });

export async function* start({ id }) {
  yield makeRefusal(id, { end: true, data: null });
}
