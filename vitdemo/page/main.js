// The entry module of the page, see modules.py. Its exports are properties of `window.vitdemo` as soon as all modules are
// loaded. `vitdemo.load` of start.js imports the other modules that code in Python uses.
import "./gradio/accordions.js";
import "./gradio/names.js";
import "./gradio/waiting.js";
import "./page.js";
import "./views.js";

export * as controls from "./gradio/controls.js";
export * as tabs from "./gradio/tabs.js";
export * as store from "./store.js";
