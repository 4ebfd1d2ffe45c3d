// The column "Try": the classifier's predictions for the camera, while it is open, or for an image file.
import { drawClassBar } from "../components/class_bars.js";
import { createCamera, makeCanvas } from "../components/shared.js";
import { markup, render as draw } from "../markup.js";
import * as store from "../store.js";
import { CLOSE_CAMERA, OPEN_CAMERA, UPLOAD_FAILED } from "../texts.js";

const SIDE = 224; // pixels of a photo that is sent
const QUALITY = 0.85;
const PAUSE = 300; // minimum milliseconds between an answer and the next photo; a slow server gets longer pauses
const MAX_SHOWN = 8;

const MARKUP = markup`
  <p class="hint"></p>
  <div class="stage" hidden><video muted playsinline hidden></video><img alt="" hidden></div>
  <div class="buttons">
    <button type="button" class="open">${OPEN_CAMERA}</button>
    <button type="button" class="leave" hidden>${CLOSE_CAMERA}</button>
    <label class="file"><input type="file" accept="image/*"><span>Choose an image</span></label>
  </div>
  <p class="say" role="status"></p>
  <ol class="bars" aria-label="Class probabilities"></ol>
`;

// Return the centre crop of the camera's image as a small JPEG.
function takePhoto(video) {
  const side = Math.min(video.videoWidth, video.videoHeight);
  const canvas = makeCanvas(SIDE, SIDE);
  const corner = [(video.videoWidth - side) / 2, (video.videoHeight - side) / 2];
  canvas.getContext("2d").drawImage(video, ...corner, side, side, 0, 0, SIDE, SIDE);
  return canvas.toDataURL("image/jpeg", QUALITY);
}

// Send a photo, and after its answer the next one, from `start` to `stop`, while the camera is visible. An error ends this,
// and is passed to `fail`.
function createPhotoLoop(video, fail) {
  let turn = 0; // number of the camera session; answers for earlier sessions start no further photo

  function shoot(mine) {
    if (mine !== turn) return;
    const isVisible = video.getClientRects().length && !document.hidden;
    const repeat = (pause) => setTimeout(shoot, pause, mine);
    if (!isVisible || !video.videoWidth) return repeat(PAUSE);
    const started = performance.now();
    store.act("own.predict", { photo: takePhoto(video) }, (error) => {
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

function create(element, { upload }) {
  draw(MARKUP, element);
  const findPart = (name) => element.querySelector(name);
  const [stage, video, image] = [".stage", "video", "img"].map(findPart);
  const showMessage = (text) => {
    if (findPart(".say").textContent !== text) findPart(".say").textContent = text;
  };
  const live = createCamera(video, showMessage);
  let isLive = false; // whether the camera is open
  const photos = createPhotoLoop(video, (error) => {
    close();
    showMessage(error);
  });

  function show(what) {
    stage.hidden = !what;
    video.hidden = what !== video;
    image.hidden = what !== image;
    findPart(".open").hidden = isLive;
    findPart(".leave").hidden = !isLive;
  }

  function close() {
    isLive = false;
    photos.stop();
    live.close();
    show(null);
  }

  async function open() {
    showMessage("");
    video.hidden = stage.hidden = false; // Some browsers do not play hidden videos.
    if (!(await live.open())) return show(null);
    isLive = true;
    show(video);
    findPart(".leave").focus();
    photos.start();
  }

  async function choose() {
    const [file] = findPart("input").files;
    findPart("input").value = "";
    if (!file) return;
    close();
    showMessage("");
    URL.revokeObjectURL(image.src);
    image.src = URL.createObjectURL(file);
    show(image);
    try {
      const { path } = await upload(file);
      store.act("own.predict", { path }, (error) => error && showMessage(error));
    } catch {
      showMessage(UPLOAD_FAILED);
    }
  }

  function render({ model, shares, is_current: isCurrent }) {
    if (!model && isLive) close();
    findPart(".hint").textContent = !model
      ? "Train the classifier first. Then show it new images here."
      : isCurrent
      ? "Show the classifier an image that it was not trained on."
      : "The images have changed since the training. Train again to use them.";
    findPart(".buttons").hidden = !model;
    findPart(".open").classList.toggle("primary", Boolean(model) && isCurrent);
    if (!shares.length && !isLive) show(null);
    draw(shares.slice(0, MAX_SHOWN).map(([name, share]) => drawClassBar(name, share)), findPart(".bars"));
    if (shares.length) showMessage(`Prediction: ${shares[0][0]}`); // the bars show the probability
  }

  findPart(".open").addEventListener("click", open);
  findPart(".leave").addEventListener("click", () => {
    close();
    findPart(".open").focus();
  });
  findPart("input").addEventListener("change", choose);
  image.addEventListener("error", () => show(null)); // a format that the browser cannot show
  return { render, showError: showMessage };
}

store.define("custom_classes_trial", { skeleton: "line", create });
