// The entry module of a document without gradio: it mounts views and controls of the page, and connects them to a
// server.
import { connect, matchTheme } from "../page/connection.js";
import "../page/page.js";
import * as store from "../page/store.js";
import "../page/views.js";
import * as controls from "./controls.js";
import * as server from "./server.js";

const { places, description, image } = JSON.parse(document.querySelector("#site").textContent);

// Add the element `id` with a view, given by its name, or with a control, given by its properties.
function mountPlace(id, content) {
  const root = Object.assign(document.createElement("div"), { id });
  document.querySelector("#sections").append(root);
  if (typeof content === "object") return controls.mount(root, content);
  root.append(document.createElement("div")); // as bridge.py does with a component of gradio
  store.mount(content, root, { upload: server.upload });
}

matchTheme();
window.vitdemo = { store, load: (name) => import(`../page/${name}`) }; // as on the page
connect({ ...server, controls: controls.update }, description);
for (const [id, content] of Object.entries(places)) mountPlace(id, content);
store.start({ tabs: {}, image });
store.checkModels();
