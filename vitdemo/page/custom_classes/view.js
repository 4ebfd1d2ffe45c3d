// The tab "Custom classes".
import "./editor.js";
import "./models.js";
import "./results.js";
import "./trial.js";
