// The entry module of a saved view: attention maps and predictions of one image, without a server. Saved data answer
// the requests of the store, and the views are the same as on the page.
import { connect, matchTheme } from "../connection.js";
import "../explore/attention_maps/view.js";
import "../explore/predictions/view.js";
import * as store from "../store.js";

const saved = JSON.parse(document.querySelector("#saved").textContent);

// Return the URL of a file, which is compressed with gzip and encoded as base64.
async function openFile({ type, content }) {
  const compressed = Uint8Array.from(atob(content), (character) => character.charCodeAt(0));
  const stream = new Blob([compressed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = await new Response(stream).arrayBuffer();
  return { url: URL.createObjectURL(new Blob([bytes], { type })) };
}

function getData({ name, state }) {
  const data = saved.views[name];
  return name === "attention" && state.norms
    ? {
      ...data,
      norms: {
        sentence:
          "This file has no norm-weighted attention. To include this map, show it before you save the view.",
      },
    }
    : data;
}

function answer({ id, state, views }, files) {
  const described = Object.entries(views).map((
    [name, key],
  ) => [name, { key, data: getData({ name, state }) }]);
  const found = { id, models: saved.models, model: saved.model, views: Object.fromEntries(described) };
  return { text: JSON.stringify(found), files };
}

matchTheme();
const files = await Promise.all(saved.files.map(openFile));
connect({ ask: (request) => answer(request, files) }, { controls: {}, needs: saved.needs });
for (const [name, id] of Object.entries({ predictions: "answers", attention: "attention" })) {
  store.mount(name, document.getElementById(id), {});
}
store.set(saved.state);
store.start({ tabs: {}, image: saved.image, hasUrl: false });
