// The column "Try": the classifier's predictions for the camera, while it is open, or for an image file, each with a map.
import { drawClassBar } from "../components/class_bars.js";
import { createCamera, drawValues, formatRamp, makeCanvas } from "../components/shared.js";
import { makeElement, markup, nothing, render as draw } from "../markup.js";
import * as store from "../store.js";
import { CLOSE_CAMERA, OPEN_CAMERA, UPLOAD_FAILED } from "../texts.js";

const SIDE = 224; // pixels of a photo that is sent
const QUALITY = 0.85;
const PAUSE = 300; // minimum milliseconds between an answer and the next photo; a slow server gets longer pauses
const MAX_SHOWN = 8;
const PREDICTION = "Prediction: ";
const MAP = "own.map"; // state key: "attention" or "class"

const MARKUP = markup`
  <p class="hint"></p>
  <div class="buttons">
    <button type="button" class="open">${OPEN_CAMERA}</button>
    <button type="button" class="leave" hidden>${CLOSE_CAMERA}</button>
    <label class="file"><input type="file" accept="image/*"><span>Choose an image</span></label>
  </div>
  <div class="stage" hidden><video muted playsinline></video></div>
  <p class="say" role="status"></p>
  <ol class="bars" aria-label="Class probabilities"></ol>
  <div class="map"></div>
`;

// Return the centre crop of the camera's image as a small JPEG.
function takePhoto(video) {
  const side = Math.min(video.videoWidth, video.videoHeight);
  const canvas = makeCanvas(SIDE, SIDE);
  const corner = [(video.videoWidth - side) / 2, (video.videoHeight - side) / 2];
  canvas.getContext("2d").drawImage(video, ...corner, side, side, 0, 0, SIDE, SIDE);
  return canvas.toDataURL("image/jpeg", QUALITY);
}

// From `start` to `stop`, send photos with `askPrediction(fields, listen)` while the camera is visible. Each photo is
// sent after the prediction for the photo before. An error ends the loop, and is passed to `fail`.
function createPhotoLoop(video, askPrediction, fail) {
  let turn = 0; // number of the camera session; answers for earlier sessions start no further photo

  function shoot(mine) {
    if (mine !== turn) return;
    const isVisible = video.getClientRects().length && !document.hidden;
    const repeat = (pause) => setTimeout(shoot, pause, mine);
    if (!isVisible || !video.videoWidth) return repeat(PAUSE);
    const started = performance.now();
    askPrediction({ photo: takePhoto(video) }, (error) => {
      if (mine !== turn) return;
      if (error) fail(error);
      else repeat(Math.max(PAUSE, performance.now() - started));
    });
  }

  return {
    start: () => shoot(++turn),
    stop() {
      turn += 1;
    },
  };
}

// The map over the model input, and the choice between both maps.
function drawMap({ seen, values, signed, caption }, name, canvas) {
  drawValues(canvas, values.flat(), [values.length, values[0].length], { signed });
  const labels = { ...store.getLabels(MAP), class: `Class map: ${name}` };
  const drawChoice = ([value, text]) =>
    markup`<label><input type="radio" name=${MAP} value=${value} .checked=${store.state[MAP] === value}
      @change=${() => store.set({ [MAP]: value })}>${text}</label>`;
  return markup`<fieldset aria-label="Map">${Object.entries(labels).map(drawChoice)}</fieldset>
    <figure><div class="vd-overlay"><img src=${seen.url} alt=${caption}>${canvas}</div>
      <figcaption><span>${signed ? "opposes" : "less"} <i style="background: ${formatRamp(signed)}"></i> ${
    signed ? "supports" : "more"
  }</span>${caption}</figcaption></figure>`;
}

function create(element, { upload }) {
  draw(MARKUP, element);
  const findPart = (name) => element.querySelector(name);
  const [stage, video] = [".stage", "video"].map(findPart);
  const canvas = makeElement(markup`<canvas aria-hidden="true"></canvas>`);
  const showMessage = (text) => {
    if (findPart(".say").textContent !== text) findPart(".say").textContent = text;
  };
  const live = createCamera(video, showMessage);
  let isLive = false; // whether the camera is open
  let last = null; // { photo } or { path } of the last image

  function askPrediction(fields, listen = (error) => error && showMessage(error)) {
    last = fields;
    store.act("own.predict", fields, listen);
  }
  const photos = createPhotoLoop(video, askPrediction, (error) => {
    close();
    showMessage(error);
  });

  function show(isOpen) {
    isLive = isOpen;
    stage.hidden = !isOpen;
    findPart(".open").hidden = isOpen;
    findPart(".leave").hidden = !isOpen;
  }

  function close() {
    photos.stop();
    live.close();
    show(false);
  }

  async function open() {
    showMessage("");
    stage.hidden = false; // Some browsers do not play hidden videos.
    if (!(await live.open())) return show(false);
    show(true);
    findPart(".leave").focus();
    photos.start();
  }

  async function choose() {
    const [file] = findPart("input[type=file]").files;
    findPart("input[type=file]").value = "";
    if (!file) return;
    close();
    showMessage("");
    try {
      askPrediction({ path: (await upload(file)).path });
    } catch {
      showMessage(UPLOAD_FAILED);
    }
  }

  function render({ map, model, shares, is_current: isCurrent }) {
    if (!model && isLive) close();
    findPart(".hint").textContent = !model
      ? "Train the classifier first. Then show it new images here."
      : isCurrent
      ? "Show the classifier an image that it was not trained on."
      : "The images have changed since the training. Train again to use them.";
    findPart(".buttons").hidden = !model;
    findPart(".open").classList.toggle("primary", Boolean(model) && isCurrent);
    draw(shares.slice(0, MAX_SHOWN).map(([name, share]) => drawClassBar(name, share)), findPart(".bars"));
    draw(map ? drawMap(map, shares[0][0], canvas) : nothing, findPart(".map"));
    const isOld = findPart(".say").textContent.startsWith(PREDICTION);
    if (shares.length) showMessage(PREDICTION + shares[0][0]); // the bars show the probability
    else if (isOld) showMessage("");
  }

  findPart(".open").addEventListener("click", open);
  findPart(".leave").addEventListener("click", () => {
    close();
    findPart(".open").focus();
  });
  findPart("input[type=file]").addEventListener("change", choose);
  store.watch([MAP], () => last && !isLive && askPrediction(last)); // the camera sends its next photo anyway
  return { render, showError: showMessage };
}

store.define("custom_classes_trial", { skeleton: "line", create });
