// The files of a payload, and the matrices in them.
import { listTokens, loadLayer, loadMatrices, makeMatrixSet } from "../../components/matrices.js";

// Load the files that the first map needs, and return the trace: see matrices.js. `previous` is the drawn trace, whose
// matrices are used again for the same image and model.
export async function loadTrace(payload, previous) {
  const image = new Image();
  image.src = payload.seen.url;
  const { norms } = payload;
  const isSame = previous?.sets.head.files[0] === payload.sets.head.files[0].url;

  async function loadSet([source, set]) {
    const isKept = isSame && source !== "rollout" && previous.sets[source];
    return [
      source,
      isKept ? previous.sets[source] : makeMatrixSet(set.files, await loadMatrices(set.rows.url)),
    ];
  }
  const described = { ...payload.sets, ...(norms?.files ? { "norm-head": norms } : {}) };
  const [sets, together] = await Promise.all([
    Promise.all(Object.entries(described).map(loadSet)),
    norms?.all ? loadMatrices(norms.all.url) : null,
    image.decode(),
  ]);
  const size = payload.prefix.length + payload.grid[0] * payload.grid[1];
  return { ...payload, sets: Object.fromEntries(sets), together, size, tokens: listTokens(payload) };
}

// The sets of the shown map and of the grid.
export function listShownSets({ source, set }) {
  const single = ["rollout", "similar"].filter((each) => each === source);
  return [...single, set];
}

// Load the files of one layer of `sets`, one after the other. A large model has a file per layer. The result is false
// if `isCurrent()` was false before all files were loaded. `draw` is called after each file.
export async function loadSets(trace, sets, layer, isCurrent, draw) {
  for (const set of sets) {
    await loadLayer(trace, set, layer);
    if (!isCurrent()) return false;
    draw();
  }
  return true;
}
