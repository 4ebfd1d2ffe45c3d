// The section "Fool the model": the image, from which the user removes patches, the game, and other changes of the image.
import "./board.js";
import "./fold.js";
import "./game.js";
import "./order.js";
import "./presets.js";
import { change } from "./changes.js";

export const chooseRandomSeed = (most) => change({ seed: Math.floor(Math.random() * (most + 1)) });
