// The entry module of the page. Its exports are properties of `window.vitdemo` as soon as all modules are loaded: see
// modules.py, which also writes views.js.
import "./names.js";
import "./page.js";
import "./waiting.js";
import "./components/no_model.js";
import "./views.js";

import * as header from "./components/header.js";
import * as offers from "./components/offers.js";
import * as runChoice from "./components/run_choice.js";
import * as runList from "./components/run_list.js";
import * as taskList from "./components/task_list.js";

// The components of Python that a module draws, by the name of their Python module.
export const components = { header, offers, run_choice: runChoice, run_list: runList, task_list: taskList };

export { createDocument } from "./components/documents.js";
export { smoothCurve } from "./components/line_plots.js";
export { getColour } from "./components/shared.js";
export * as augmentation from "./data/augmentation/view.js";
export * as perturbation from "./explore/perturbation/view.js";
export * as spotlight from "./lessons/panel/spotlight.js";
export * as store from "./store.js";
export * from "./texts.js";
export * as trainingJobs from "./training/train_model/view.js";
