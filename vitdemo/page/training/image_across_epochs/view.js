// Shows the epochs of the animation one at a time, without requests to the server.
(() => {
const { make, notice, paint, probability, store } = vitdemo;
const FRAME_MS = 700; // milliseconds per epoch
const NO_IMAGE_MESSAGE = "Choose an image in the tab Explore to see how attention to it changes in training.";
const [PLAY_LABEL, STOP_LABEL] = ["Play", "Stop"];
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
  return make("li", { className: (name === predicted ? "first" : "") + mark }, make("span", { text: words, title: name }),
    make("div", {}, make("i", { style: `width: ${100 * share}%` })), make("b", { text: probability(share) }));
}

function slider(name, min) {
  const [text, input] = [make("span"), make("input", { type: "range", min })];
  return { input, text, label: make("label", { className: name }, text, " ", input) };
}

function create(element) {
  const [image, canvas] = [make("img", { alt: "" }), make("canvas", { "aria-hidden": "true" })];
  const [when, bars, learned] = [make("p", { className: "when", role: "status" }), make("ul"), make("p", { className: "learned" })];
  const [at, layer] = [slider("at", 0), slider("layer", 1)];
  const button = make("button", { type: "button", className: "play", text: PLAY_LABEL });
  const screen = make("div", { className: "screen" }, make("div", { className: "vd-overlay" }, image, canvas),
    make("div", { className: "answer" }, when, bars, learned));
  const controls = make("div", { className: "controls" }, button, at.label, layer.label);
  let data = null; // the drawn animation
  let timer = null;

  function stop() {
    clearInterval(timer);
    timer = null;
    button.textContent = PLAY_LABEL;
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
    button.textContent = STOP_LABEL;
    timer = setInterval(next, FRAME_MS);
  }

  function say(message) {
    stop();
    element.replaceChildren(notice(message));
  }

  function render(found, state) {
    const isOtherRun = data?.run && data.run !== found.run;
    data = found;
    store.set({ "training.followed": data.followed, ...(isOtherRun ? { [KEYS.epoch]: "", [KEYS.layer]: "" } : {}) });
    if (data.message) return say(data.message);
    if (!screen.isConnected) element.replaceChildren(screen, controls);
    const i = epochIndex(data, state[KEYS.epoch]);
    const l = Math.min(state[KEYS.layer] || data.layers, data.layers);
    const [epoch, predicted] = [data.epochs[i], data.predicted[i]];
    if (image.src !== data.seen.url) image.src = data.seen.url;
    image.alt = `Attention of ${data.run} after epoch ${epoch}, layer ${l}, mean of the heads`;
    paint(canvas, data.maps[i][l - 1], data.grid);
    when.textContent = `${data.run} after epoch ${epoch}: ${predicted}`;
    bars.replaceChildren(...data.classes.map((name, c) => bar(name, data.shares[i][c], { label: data.label, predicted })));
    learned.textContent = data.words;
    Object.assign(at.input, { max: data.epochs.length - 1, value: i });
    at.input.setAttribute("aria-valuetext", `epoch ${epoch}: ${predicted}`);
    at.text.textContent = `Epoch ${epoch} of ${data.epochs.at(-1)}`;
    Object.assign(layer.input, { max: data.layers, value: l });
    layer.text.textContent = `Layer ${l} of ${data.layers}`;
    button.disabled = data.epochs.length < 2;
  }

  at.input.addEventListener("input", () => { stop(); chooseEpoch(Number(at.input.value)); });
  layer.input.addEventListener("input", () => chooseLayer(Number(layer.input.value)));
  button.addEventListener("click", play);
  if (!store.state.image) say(NO_IMAGE_MESSAGE);
  return { render, showError: say };
}

store.define("image_across_epochs", { needs: ["image", "training.animated"], follows: Object.values(KEYS), create });
})();
