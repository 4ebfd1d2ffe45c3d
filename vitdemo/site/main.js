// The entry module of a document without gradio: it mounts views and controls of the page, and connects them to a
// server (server.js), or to recorded answers (recorded.js).
import { connect, matchTheme } from "../page/connection.js";
import "../page/page.js";
import * as store from "../page/store.js";
import "../page/views.js";
import * as controls from "./controls.js";
import { connectTabs } from "./tabs.js";

const { connection, places, description, image, tabs, components, graphs, version } = JSON.parse(
  document.querySelector("#site").textContent,
);
// The import map of the document contains these names, because the modules of a single file have no paths.
const server = await import(`vitdemo/site/${connection}.js`);
const load = (name) => import(`vitdemo/page/${name}`);

// Return the element `id` of the layout, or a new element.
function getPlace(id) {
  const found = document.getElementById(id);
  if (found) return found;
  const root = Object.assign(document.createElement("div"), { id });
  document.querySelector("#sections").append(root);
  return root;
}

// Fill the element `id` with a view, given by its name, or with a control, given by its properties.
function mountPlace(id, content) {
  const root = getPlace(id);
  const place = root.querySelector("[data-place]") ?? root;
  if (typeof content === "object") return controls.mount(root, place, content);
  place.append(document.createElement("div")); // as bridge.py does with a component of gradio
  store.mount(content, place, { upload: server.upload, isPrivate: server.isPrivate });
}

// Fill the element `id` with a component of Python, given by its module and its value.
async function mountComponent(id, { part, value }) {
  const { mount } = await load(`components/${part}.js`);
  const props = { value: await server.completeUrls(value) };
  mount({ element: getPlace(id).querySelector("[data-place]"), props, trigger() {}, watch() {} });
}

matchTheme();
window.vitdemo = { store, load }; // as on the page
connect({ ...server, controls: controls.update }, description);
for (const [id, content] of Object.entries(components)) {
  mountComponent(id, content).catch(() => getPlace(id).hidden = true); // its files are missing in half of a single file
}
for (const [id, content] of Object.entries(places)) mountPlace(id, content);
store.start({ tabs, image });
connectTabs(tabs);
store.checkModels();
if (Object.keys(graphs ?? {}).length) {
  import("vitdemo/site/check.js").then(({ mount }) => mount(document.querySelector("#explore-sections")));
}
if (version) import("vitdemo/site/offline.js").then(({ startOffline }) => startOffline(version));
