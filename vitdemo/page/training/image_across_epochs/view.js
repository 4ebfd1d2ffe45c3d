// Shows the epochs of the animation one at a time, without requests to the server.
import { make, notice, paint, probability } from "../../components/shared.js";
import * as store from "../../store.js";
import { fill, TEXTS } from "../../texts.js";

const texts = TEXTS.image_across_epochs;
const FRAME_MS = 700; // milliseconds per epoch
const KEYS = { epoch: "training.epoch", layer: "training.layer" }; // an empty value: the last epoch or layer
const number = (text) => (Number(text) > 0 ? Math.round(Number(text)) : undefined);
for (const key of Object.values(KEYS)) store.defineParam(key, { parse: number });

// Index of the chosen epoch, or of the last epoch before it.
function epochIndex({ epochs }, chosen) {
  return chosen ? Math.max(epochs.filter((epoch) => epoch <= chosen).length - 1, 0) : epochs.length - 1;
}

function bar(name, share, { label, predicted }) {
  const mark = label === null ? "" : name === label ? " true" : " wrong";
  const words = name + (name === label ? " ✓" : "");
  return make(
    "li",
    { className: (name === predicted ? "first" : "") + mark },
    make("span", { text: words, title: name }),
    make("div", {}, make("i", { style: `width: ${100 * share}%` })),
    make("b", { text: probability(share) }),
  );
}

function slider(name, min) {
  const [text, input] = [make("span"), make("input", { type: "range", min })];
  const label = make("label", { className: name }, text, " ", input);
  return { input, text, label };
}

// The animation needs several forward passes, so it is requested only when the user scrolls to it.
function waitForScroll(element) {
  element.hidden = true;
  const observer = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    element.hidden = false;
  });
  observer.observe(element.parentElement);
}

function create(element) {
  const [image, canvas] = [make("img", { alt: "" }), make("canvas", { "aria-hidden": "true" })];
  const [when, bars, learned] = [
    make("p", { className: "when", role: "status" }),
    make("ul"),
    make("p", { className: "learned" }),
  ];
  const [at, layer] = [slider("at", 0), slider("layer", 1)];
  const button = make("button", { type: "button", className: "play", text: texts.play });
  const screen = make(
    "div",
    { className: "screen" },
    make("div", { className: "vd-overlay" }, image, canvas),
    make("div", { className: "answer" }, when, bars, learned),
  );
  const controls = make("div", { className: "controls" }, button, at.label, layer.label);
  let data = null; // the drawn animation
  let timer = null;

  function stop() {
    clearInterval(timer);
    timer = null;
    button.textContent = texts.play;
  }

  // The last epoch and layer stay the last ones when an epoch is added.
  const chooseEpoch = (i) => store.set({ [KEYS.epoch]: i < data.epochs.length - 1 ? data.epochs[i] : "" });
  const chooseLayer = (l) => store.set({ [KEYS.layer]: l < data.layers ? l : "" });

  function next() {
    if (!element.isConnected || Number(at.input.value) >= Number(at.input.max)) return stop();
    chooseEpoch(Number(at.input.value) + 1);
  }

  function play() {
    if (timer) return stop();
    if (Number(at.input.value) >= Number(at.input.max)) chooseEpoch(0);
    else next();
    button.textContent = texts.stop;
    timer = setInterval(next, FRAME_MS);
  }

  function say(content) {
    stop();
    element.replaceChildren(content);
  }
  const hint = (text) => make("p", { className: "none", text }); // there is nothing to show yet

  function render(found, state) {
    const isOtherRun = data?.run && data.run !== found.run;
    data = found;
    store.set({
      "training.followed": data.followed,
      ...(isOtherRun ? { [KEYS.epoch]: "", [KEYS.layer]: "" } : {}),
    });
    if (data.message) return say(hint(data.message));
    if (!screen.isConnected) element.replaceChildren(screen, controls);
    const i = epochIndex(data, state[KEYS.epoch]);
    const l = Math.min(state[KEYS.layer] || data.layers, data.layers);
    const [epoch, predicted] = [data.epochs[i], data.predicted[i]];
    if (image.src !== data.seen.url) image.src = data.seen.url;
    image.alt = fill(texts.map, { run: data.run, epoch, layer: l });
    paint(canvas, data.maps[i][l - 1], data.grid);
    when.textContent = fill(texts.prediction, { run: data.run, epoch, predicted });
    bars.replaceChildren(
      ...data.classes.map((name, c) => bar(name, data.shares[i][c], { label: data.label, predicted })),
    );
    learned.textContent = data.words;
    Object.assign(at.input, { max: data.epochs.length - 1, value: i });
    at.input.setAttribute("aria-valuetext", fill(texts.chosen_epoch, { epoch, predicted }));
    at.text.textContent = fill(texts.epoch, { epoch, epochs: data.epochs.at(-1) });
    Object.assign(layer.input, { max: data.layers, value: l });
    layer.text.textContent = fill(texts.layer, { layer: l, layers: data.layers });
    button.disabled = data.epochs.length < 2;
  }

  at.input.addEventListener("input", () => {
    stop();
    chooseEpoch(Number(at.input.value));
  });
  layer.input.addEventListener("input", () => chooseLayer(Number(layer.input.value)));
  button.addEventListener("click", play);
  waitForScroll(element);
  if (!store.state.image) say(hint(texts.no_image));
  return { render, showError: (message) => say(notice(message)) };
}

store.define("image_across_epochs", {
  needs: ["image", "training.animated"],
  follows: Object.values(KEYS),
  create,
});
