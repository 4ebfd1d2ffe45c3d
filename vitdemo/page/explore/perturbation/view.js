// The section "Change the image": the changed image, from which the user removes patches, the predictions for it, the
// attention to it, attention knock-out, and the folds of both kinds of sliders.
import "./attention.js";
import "./folds.js";
import "./image.js";
import "./knockout.js";
import "./predictions.js";
import "./presets.js";
import { change, setRemoved } from "./changes.js";

export const restoreAll = () => setRemoved("");
export const chooseRandomSeed = (most) => change({ seed: Math.floor(Math.random() * (most + 1)) });
