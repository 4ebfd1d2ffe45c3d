// The entry module of a document without gradio: it mounts views of the page, and connects them to a server.
import { connect, matchTheme } from "../page/connection.js";
import * as page from "../page/main.js";
import * as server from "./server.js";

const { places, controls, image } = JSON.parse(document.querySelector("#site").textContent);

// Add the element `id` for the view `name`, as bridge.py does with a component of gradio.
function mountView(id, name) {
  const root = Object.assign(document.createElement("div"), { id });
  root.append(document.createElement("div"));
  document.querySelector("#sections").append(root);
  page.store.mount(name, root, { upload: server.upload });
}

matchTheme();
window.vitdemo = page;
connect(server, controls);
for (const [id, name] of Object.entries(places)) mountView(id, name);
page.store.set({ model: null }); // the first model of the answer
page.store.start({ tabs: {}, image });
page.store.checkModels();
