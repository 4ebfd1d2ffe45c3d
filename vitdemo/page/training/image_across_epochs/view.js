// Shows the epochs of the animation one at a time, without requests to the server.
import { drawClassBar } from "../../components/class_bars.js";
import { drawMarkdown, drawNotice, drawValues, makeRange } from "../../components/shared.js";
import { markup, nothing, render as draw } from "../../markup.js";
import * as store from "../../store.js";

const FRAME_MS = 700; // milliseconds per epoch
const MAX_SMALL = 12; // maximum number of small maps
const KEYS = { epoch: "training.epoch", layer: "training.layer" }; // 0: the last epoch or layer

// Index of the chosen epoch, or of the last epoch before it.
function findEpochIndex({ epochs }, chosen) {
  return chosen ? Math.max(epochs.filter((epoch) => epoch <= chosen).length - 1, 0) : epochs.length - 1;
}

function drawSlider(name, text, { min, max, value, spoken = nothing }, choose) {
  return markup`<label class=${name}><span>${text}</span> <input type="range" min=${min} max=${max} .value=${value}
    aria-valuetext=${spoken} @input=${({ target }) => choose(Number(target.value))}></label>`;
}

// The first epoch with a lasting correct prediction, and the epochs after which it became incorrect.
export function describeLearning(correct, epochs) {
  if (!correct.includes(true)) return "The prediction was incorrect after all of these epochs.";
  const lastError = correct.lastIndexOf(false);
  const forgotten = epochs.filter((_, i) => correct[i - 1] && !correct[i]);
  const learned = lastError === correct.length - 1
    ? `The prediction was first correct after epoch ${
      epochs[correct.indexOf(true)]
    }, but incorrect at the end`
    : `The prediction is correct from epoch ${epochs[lastError + 1]} on`;
  const lost = forgotten.length ? `; it became incorrect after epoch ${forgotten.join(", ")}` : "";
  return `${learned}${lost}.`;
}

const formatWhen = (trained) =>
  Number.isInteger(trained) ? `after epoch ${trained}` : `after ${trained} epochs`;

// The map and the predictions of epoch `i` and layer `l`.
function drawScreen({ classes, label: truth, predicted, run, seen, shares, trained }, i, l) {
  const drawBar = (name, c) => drawClassBar(name, shares[i][c], { truth, isFirst: name === predicted[i] });
  const learned = truth === null ? "" : describeLearning(predicted.map((name) => name === truth), trained);
  return markup`<div class="screen">
    <div class="vd-overlay"><img src=${seen.url} alt="Attention of ${run} ${
    formatWhen(trained[i])
  }, layer ${l}, mean of the heads"><canvas aria-hidden="true"></canvas></div>
    <div class="answer">
      <p class="when" role="status">${run} ${formatWhen(trained[i])}: ${predicted[i]}</p>
      <ul>${classes.map(drawBar)}</ul>
      <p class="learned">${learned}</p>
    </div>
  </div>`;
}

// Indices of at most `MAX_SMALL` evenly spaced epochs, with the first and the last.
function listSmall(count) {
  const shown = Math.min(count, MAX_SMALL);
  return makeRange(shown, (i) => Math.round((i * (count - 1)) / Math.max(shown - 1, 1)));
}

// Small maps of several epochs. A click shows the epoch; the slider does the same for the keyboard.
const drawSmallMaps = ({ epochs, seen, trained }, i, choose) =>
  markup`<div class="small" aria-hidden="true">${
    listSmall(epochs.length).map((at) =>
      markup`<div class=${at === i ? "tile chosen" : "tile"} @click=${() => choose(at)}>
        <div class="vd-overlay"><img src=${seen.url} alt=""><canvas></canvas></div>${trained[at]}</div>`
    )
  }</div>`;

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
  let data = null; // the last animation
  let timer = null; // timer of the running animation

  const getChosenIndex = () => findEpochIndex(data, store.state[KEYS.epoch]);
  // A choice of the last epoch or layer is 0, so it follows when an epoch is added.
  const chooseEpoch = (i) => store.set({ [KEYS.epoch]: i < data.epochs.length - 1 ? data.epochs[i] : 0 });
  const chooseLayer = (l) => store.set({ [KEYS.layer]: l < data.layers ? l : 0 });
  const isAtEnd = () => getChosenIndex() === data.epochs.length - 1;

  function pause() {
    clearInterval(timer);
    timer = null;
  }

  function stop() {
    pause();
    show();
  }

  const showNext = () => !element.isConnected || isAtEnd() ? stop() : chooseEpoch(getChosenIndex() + 1);

  function play() {
    if (timer) return stop();
    timer = setInterval(showNext, FRAME_MS);
    return isAtEnd() ? chooseEpoch(0) : showNext();
  }

  function moveTo(i) {
    stop();
    chooseEpoch(i);
  }

  function showMessage(content) {
    pause();
    draw(content, element);
  }
  const drawHint = (text) => markup`<p class="none">${drawMarkdown(text)}</p>`; // there is nothing to show yet

  function show() {
    const [i, l] = [getChosenIndex(), Math.min(store.state[KEYS.layer] || data.layers, data.layers)];
    const playText = timer ? "Stop" : "Play";
    const small = data.epochs.length > 1 ? drawSmallMaps(data, i, moveTo) : nothing;
    draw(markup`${drawScreen(data, i, l)}${drawControls(data, i, l, playText)}${small}`, element);
    const [large, ...others] = element.querySelectorAll("canvas");
    drawValues(large, data.maps[i][l - 1], data.grid);
    const shown = listSmall(data.epochs.length);
    others.forEach((canvas, j) => drawValues(canvas, data.maps[shown[j]][l - 1], data.grid));
  }

  function drawControls({ epochs, layers, predicted, trained }, i, l, playText) {
    const range = {
      min: 0,
      max: epochs.length - 1,
      value: i,
      spoken: `${formatWhen(trained[i])}: ${predicted[i]}`,
    };
    const layerRange = { min: 1, max: layers, value: l };
    return markup`<div class="controls">
      <button type="button" class="play" ?disabled=${epochs.length < 2} @click=${play}>${playText}</button>
      ${drawSlider("at", `Epoch ${trained[i]} of ${trained.at(-1)}`, range, moveTo)}
      ${drawSlider("layer", `Layer ${l} of ${layers}`, layerRange, chooseLayer)}
    </div>`;
  }

  function render(found) {
    const isOtherRun = data?.run && data.run !== found.run;
    data = found;
    store.set({
      "training.followed": data.followed,
      ...(isOtherRun ? { [KEYS.epoch]: 0, [KEYS.layer]: 0 } : {}),
    });
    return data.message ? showMessage(drawHint(data.message)) : show();
  }

  waitForScroll(element);
  if (!store.state.image) {
    showMessage(
      drawHint("Choose an image in the tab Explore to see how the model's attention changes in training."),
    );
  }
  return { render, showError: (message) => showMessage(drawNotice(message)) };
}

store.define("image_across_epochs", {
  skeleton: "figures",
  follows: Object.values(KEYS),
  create,
});
