// The entry module of the page. Its exports are properties of `window.vitdemo` as soon as all modules are loaded: see
// modules.py.
import "./names.js";
import "./page.js";
import "./waiting.js";
import "./components/no_model.js";
import "./custom_classes/view.js";
import "./data/augmentation/view.js";
import "./data/classes/examples/view.js";
import "./data/classes/view.js";
import "./data/download/view.js";
import "./data/patches/view.js";
import "./data/similar_images/view.js";
import "./explore/attention_maps/view.js";
import "./explore/class_attribution/view.js";
import "./explore/image_input/view.js";
import "./explore/inside/architecture/view.js";
import "./explore/inside/attention_distance/view.js";
import "./explore/inside/epochs/view.js";
import "./explore/inside/head_ablation/view.js";
import "./explore/inside/logit_lens/view.js";
import "./explore/inside/one_head/view.js";
import "./explore/inside/patch_embedding/view.js";
import "./explore/inside/positions/view.js";
import "./explore/inside/residual_stream/view.js";
import "./explore/inside/view.js";
import "./explore/perturbation/view.js";
import "./explore/predictions/view.js";
import "./explore/side_by_side/view.js";
import "./lessons/catalog/view.js";
import "./lessons/cost/view.js";
import "./lessons/handouts/view.js";
import "./lessons/panel/view.js";
import "./results/calibration/view.js";
import "./results/compare/latency/view.js";
import "./results/compare/model_scatter/view.js";
import "./results/compare/models_table/view.js";
import "./results/compare/published_results/view.js";
import "./results/compare/recipe_ablation/view.js";
import "./results/compare/robustness/view.js";
import "./results/confusion_matrix/view.js";
import "./results/errors/view.js";
import "./results/per_class_metrics/view.js";
import "./results/test_set/view.js";
import "./results/view.js";
import "./training/curves/view.js";
import "./training/image_across_epochs/view.js";
import "./training/results/view.js";
import "./training/run_choice/view.js";
import "./training/train_model/view.js";

import * as header from "./components/header.js";
import * as offers from "./components/offers.js";
import * as runChoice from "./components/run_choice.js";
import * as runList from "./components/run_list.js";
import * as taskList from "./components/task_list.js";

// The components of Python that a module draws, by the name of their Python module.
export const components = { header, offers, run_choice: runChoice, run_list: runList, task_list: taskList };

export { documentIn } from "./components/documents.js";
export { smoothCurve } from "./components/line_plots.js";
export { shade } from "./components/shared.js";
export * as augmentation from "./data/augmentation/view.js";
export * as perturbation from "./explore/perturbation/view.js";
export * as spotlight from "./lessons/panel/spotlight.js";
export * as store from "./store.js";
export * from "./texts.js";
export * as trainingJobs from "./training/train_model/view.js";
