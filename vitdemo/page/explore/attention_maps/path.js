// The path of the image through the layers: the map of each layer, and the probability of the predicted class after it. The
// layers are a slider, and *Play* shows them one after the other.
import { clamp, drawValues, formatProbability, makeRange } from "../../components/shared.js";
import { markup, nothing, render } from "../../markup.js";
import { getColours, readPatches } from "./selection.js";

const SECONDS_PER_LAYER = 0.8;
const PLAYED = "vitdemo-path-played"; // key of localStorage
// The path plays by itself at the first visit, without parameters of a link.
const IS_PLAIN_VISIT = !window.location.search;
const MOVES = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, Home: -Infinity, End: Infinity };
const TOUCHES = ["pointerdown", "keydown", "wheel"];

// Return whether this is the first visit, and mark it.
function markFirstVisit() {
  if (!IS_PLAIN_VISIT || matchMedia("(prefers-reduced-motion: reduce)").matches) return false;
  try {
    if (localStorage.getItem(PLAYED) !== null) return false;
    localStorage.setItem(PLAYED, "yes");
    return true;
  } catch {
    return false; // localStorage is blocked
  }
}

// A timer that calls `showLayer(layer)` for each layer, and then `handleEnd(null)`. If the user touches the page
// outside the button, the timer calls `handleEnd` with the shown layer. `getLayers()` returns the number of layers.
function createPlayer(getLayers, showLayer, handleEnd) {
  let timer = 0;
  let layer = 0;

  function stop(shown) {
    clearInterval(timer);
    timer = 0;
    for (const type of TOUCHES) document.removeEventListener(type, handleTouch, true);
    handleEnd(shown);
  }
  const handleTouch = ({ target }) => target.closest?.(".play") || stop(layer);

  function showNext() {
    layer += 1;
    if (layer > getLayers()) stop(null);
    else showLayer(layer);
  }

  function start() {
    layer = 0;
    timer = setInterval(showNext, 1000 * SECONDS_PER_LAYER);
    for (const type of TOUCHES) document.addEventListener(type, handleTouch, true);
    showNext();
  }
  return { isPlaying: () => timer !== 0, toggle: () => (timer ? stop(layer) : start()) };
}

// `shares[layer]` is the probability after a layer. Models without classes have none.
function drawLayer(layer, shares, isChosen) {
  const share = shares?.[layer];
  const bar = shares ? markup`<b style="--share: ${100 * share}%">${Math.round(100 * share)}%</b>` : nothing;
  return markup`<div class=${isChosen ? "layer chosen" : "layer"} data-layer=${layer}><span><canvas width="1"
    height="1"></canvas></span>${bar}</div>`;
}

function describeValue(layer, layers, prediction) {
  const place = `layer ${layer} of ${layers}`;
  return prediction ? `${place}: ${prediction.class} ${formatProbability(prediction.shares[layer])}` : place;
}

// The path in `place`. `chooseLayer(layer)` chooses a layer, and `playLayer(layer)` shows a layer while the path plays (null:
// it has ended).
export function createPath(place, chooseLayer, playLayer) {
  let drawn = { layer: 1, layers: 1 };

  function handleEnd(layer) {
    playLayer(null);
    if (layer) chooseLayer(layer);
    else showButton();
  }
  const player = createPlayer(() => drawn.layers, playLayer, handleEnd);

  function toggle() {
    player.toggle();
    showButton();
  }
  function press(event) {
    const move = MOVES[event.key];
    if (move === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    chooseLayer(clamp(drawn.layer + move, 1, drawn.layers));
  }
  const chooseAt = ({ target }) => {
    const layer = target.closest("[data-layer]");
    if (layer) chooseLayer(Number(layer.dataset.layer));
  };
  render(
    markup`<button type="button" class="play" @click=${toggle}></button>
      <div class="layers" role="slider" tabindex="0" aria-label="Layer" @click=${chooseAt} @keydown=${press}></div>`,
    place,
  );
  const [button, strip] = place.children;

  function showButton() {
    button.textContent = player.isPlaying() ? "■ Stop" : "▶ Play";
    button.title = "Show the layers one after the other";
  }

  // Lay out the layers of `trace`, and mark the shown one.
  function show({ layers, prediction }, { layer }) {
    drawn = { layer, layers };
    render(makeRange(layers, (i) => drawLayer(i + 1, prediction?.shares, i + 1 === layer)), strip);
    strip.ariaValueMin = 1;
    strip.ariaValueMax = layers;
    strip.ariaValueNow = layer;
    strip.ariaValueText = describeValue(layer, layers, prediction);
    showButton();
  }

  // Draw the map of each layer with the choices of the large map.
  function draw(trace, selection) {
    const colours = getColours(selection.source, selection.colour);
    [...strip.querySelectorAll("canvas")].forEach((canvas, i) => {
      const map = readPatches(trace, { ...selection, layer: i + 1 });
      canvas.classList.toggle("waits", !map);
      if (map) drawValues(canvas, map, trace.grid, { top: null, ...colours });
    });
  }

  // Play once, slowly, at the first visit.
  function playAtFirstVisit() {
    if (drawn.layers > 1 && place.offsetWidth && markFirstVisit()) toggle();
  }

  return { show, draw, playAtFirstVisit };
}
