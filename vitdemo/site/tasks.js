// Tasks in this browser: it repeats the graph of one step, see graphs.py. Between two steps, the worker computes other results.
import { fill, runGraph } from "./own_images.js";

const VALUE = "value."; // first part of the paths of outputs, and of the names of inputs, that are values of a loop
const MAX_RESULTS = 20;
const results = []; // of loops that change the data of a view: { key (see `describeKey`), loop, outputs }
const stopped = new Set(); // ids of tasks

// The state whose result is that of a loop: the image, the model, and the inputs of its graphs.
const describeKey = ({ start }, { image, model, ...state }) =>
  JSON.stringify([image.source, image.path, image.at, model, ...start.inputs.map(({ key }) => state[key])]);

// Run a graph of a loop. Return its outputs, and `values` by the names of the inputs of the next step.
async function runStep(graph, changes, image, state) {
  const outputs = await runGraph(graph, { changes }, image, state);
  const values = {};
  graph.outputs.forEach(({ path }, i) => {
    if (path.startsWith(VALUE)) values[path] = outputs[i].data;
  });
  return { outputs, values };
}

// Yield the progress of a loop, then its `outputs`.
async function* runLoop({ text, start, step, changes, given }, image, state) {
  let { values } = await runStep(start, null, image, state);
  let outputs = null;
  while (!outputs || !values[`${VALUE}is_finished`][0]) {
    const [done, total] = ["done", "total"].map((name) => Number(values[VALUE + name]?.[0] ?? 0));
    yield { done, total, text };
    ({ outputs, values } = await runStep(step, changes, image, { ...state, ...given, ...values }));
  }
  yield { outputs };
}

function keepResult(loop, state, outputs) {
  results.push({ key: describeKey(loop, state), loop, outputs });
  results.splice(0, results.length - MAX_RESULTS);
}

const hasResult = (loop, state) =>
  results.some((each) => each.loop === loop && each.key === describeKey(loop, state));

// Yield the messages of a task without their id: see bridge.py. `image` has a path of own_images.js, and `state` are the
// values of all state keys. Loops of a cancelled task that have a result are not repeated.
export async function* runTask(id, loops, image, state) {
  let data = null;
  for (const loop of loops.filter((each) => !hasResult(each, state))) {
    for await (const { outputs, ...progress } of runLoop(loop, image, state)) {
      if (stopped.delete(id)) return yield { end: true, data: null, error: null };
      if (!outputs) yield progress;
      else if (loop.view) keepResult(loop, state, outputs);
      else ({ data } = await fill({ data: {} }, [], loop.step, outputs));
    }
  }
  yield { end: true, data, error: null };
}

export const stopTask = (id) => stopped.add(id);

// Return the answer of the view `name` with the results of finished loops.
export async function addResults(name, state, answer) {
  let added = answer;
  for (const { key, loop, outputs } of results) {
    const isFound = loop.view === name && !added.error && key === describeKey(loop, state);
    if (isFound) added = await fill(added, [], loop.step, outputs);
  }
  return added;
}
