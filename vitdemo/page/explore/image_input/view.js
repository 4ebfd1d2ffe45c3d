// Input of the image that all models receive: from a file, drop, paste or camera. The user can move the
// square that the models receive.
import { createCamera, drawNotice } from "../../components/shared.js";
import { drawDatasetCard, isMissingDataset } from "../../data/download/view.js";
import { makeElement, markup, nothing, render as draw } from "../../markup.js";
import * as store from "../../store.js";

// Images, and formats that some systems do not list as images.
const ACCEPTED =
  "image/*,.apng,.avif,.avifs,.bmp,.dib,.gif,.heic,.heics,.heif,.heifs,.hif,.jfi,.jfif,.jif,.jpe,.jpeg,.jpg,.mpo,.pbm,.pfm,.pgm,.pjp,.pjpeg,.png,.pnm,.ppm,.tif,.tiff,.webp";
const MARKUP = markup`
  <div class="given">
    <div class="frame" data-state="picture">
      <img class="whole" alt="">
      <div class="crop" role="slider" tabindex="0" aria-label="Crop: the square input of the models" aria-valuemin="0"
        aria-valuemax="100" hidden></div>
      <video class="camera" muted playsinline hidden></video>
    </div>
    <p class="about"></p>
    <div class="ways">
      <label class="choose">
        <input type="file" accept="${ACCEPTED}">
        <span>Choose a photo</span>
      </label>
      <button type="button" class="open-camera">Open camera</button>
      <button type="button" class="take" hidden>Take photo</button>
      <button type="button" class="leave" hidden>Close camera</button>
    </div>
    <p class="say" role="status"></p>
  </div>
`;

function create(element, { upload }) {
  draw(MARKUP, element);
  const findPart = (name) => element.querySelector("." + name);
  const choose = (image, options) => store.set({ image, unavailable: "" }, options);
  const [frame, whole, crop, screen] = ["frame", "whole", "crop", "camera"].map(findPart);
  const MOST = 60e6; // bytes, the same limit as on the server
  let at = 0.5; // position of the square along the longer side, 0 to 1
  let refusal = ""; // the last message about an image that was not shown
  let shown = null; // the last image that the server accepted
  let sent = 0; // number of the latest image; earlier images that finish late are ignored
  let photo = null; // the last uploaded photo: { file, path }

  // Show a problem, or a running step. The message covers the image, so that nothing below moves.
  function showMessage(text, isRunning = false) {
    findPart("say").textContent = text;
    findPart("say").classList.toggle("running", isRunning);
  }

  async function send(blob, name, position = 0.5) {
    const mine = ++sent;
    if (blob.size > MOST) {
      return showMessage(`The file is larger than ${MOST / 1e6} MB. Choose a smaller file.`);
    }
    showMessage("The image is uploading …", true);
    try {
      const file = blob instanceof File ? blob : new File([blob], name, { type: blob.type });
      const { path } = await upload(file);
      if (mine !== sent) return;
      photo = { file, path };
      choose({ source: "own", path, at: position });
    } catch {
      if (mine === sent) {
        showMessage(
          "The image could not be uploaded: the server does not respond, or its disk is full. Try again.",
        );
      }
    }
  }

  // A server that ends deletes the uploaded photos.
  document.addEventListener("vitdemo:connection", ({ detail }) => {
    const { image } = store.state;
    if (detail === "restarted" && photo && image.path === photo.path) {
      send(photo.file, photo.file.name, image.at);
    }
  });

  // --- sources ---

  const input = element.querySelector("input[type=file]");
  input.addEventListener("change", () => {
    if (input.files[0]) send(input.files[0]);
    input.value = ""; // so that the same file can be chosen again
  });
  frame.addEventListener("dragover", (event) => {
    event.preventDefault();
    frame.classList.add("over");
  });
  frame.addEventListener("dragleave", () => frame.classList.remove("over"));
  frame.addEventListener("drop", (event) => {
    event.preventDefault();
    frame.classList.remove("over");
    const file = event.dataTransfer.files[0];
    if (file) send(file);
    else showMessage("Only a file can be dropped here. Save the image as a file first.");
  });
  document.addEventListener("paste", (event) => {
    const file = [...(event.clipboardData?.files ?? [])].find((each) => each.type.startsWith("image/"));
    if (!file || !element.offsetParent) return; // another tab of the page is open
    event.preventDefault();
    send(file, "pasted.png");
  });

  const live = createCamera(screen, showMessage);

  function show(isLive) {
    frame.dataset.state = isLive ? "camera" : "picture";
    screen.hidden = findPart("take").hidden = findPart("leave").hidden = !isLive;
    findPart("open-camera").hidden = isLive;
  }

  function closeCamera() {
    live.close();
    show(false);
  }

  findPart("open-camera").addEventListener("click", async () => {
    if (!(await live.open())) return;
    showMessage("");
    show(true);
    findPart("take").focus();
  });
  findPart("leave").addEventListener("click", () => {
    closeCamera();
    findPart("open-camera").focus();
  });
  findPart("take").addEventListener("click", () => {
    live.takePhoto("image/png").then((blob) => send(blob, "camera.png"));
    closeCamera();
  });

  // --- the square that the models receive ---

  const isWide = () => whole.naturalWidth > whole.naturalHeight;
  const isSquare = () =>
    Math.abs(whole.naturalWidth - whole.naturalHeight) <=
      0.02 * Math.max(whole.naturalWidth, whole.naturalHeight);

  function placeSquare() {
    crop.hidden = !shown || !whole.naturalWidth || isSquare();
    if (crop.hidden) return;
    const side = Math.min(whole.clientWidth, whole.clientHeight);
    const room = Math.max(whole.clientWidth, whole.clientHeight) - side;
    crop.style.width = crop.style.height = `${side}px`;
    crop.style.left = `${whole.offsetLeft + (isWide() ? at * room : 0)}px`;
    crop.style.top = `${whole.offsetTop + (isWide() ? 0 : at * room)}px`;
    crop.setAttribute("aria-valuenow", Math.round(100 * at));
    crop.setAttribute("aria-orientation", isWide() ? "horizontal" : "vertical");
  }

  let asking = null;
  function moveSquare(to, delay) {
    at = Math.min(Math.max(to, 0), 1);
    placeSquare();
    clearTimeout(asking);
    asking = setTimeout(() => choose({ ...shown, at }), delay);
  }

  crop.addEventListener("pointerdown", (event) => {
    const [start, before] = [isWide() ? event.clientX : event.clientY, at];
    const room = Math.abs(whole.clientWidth - whole.clientHeight);
    crop.setPointerCapture(event.pointerId);
    crop.onpointermove = (moved) => {
      at = Math.min(Math.max(before + ((isWide() ? moved.clientX : moved.clientY) - start) / room, 0), 1);
      placeSquare();
    };
    crop.onpointerup = crop.onpointercancel = () => {
      crop.onpointermove = crop.onpointerup = crop.onpointercancel = null;
      if (at !== before) moveSquare(at, 0);
    };
  });
  crop.addEventListener("keydown", (event) => {
    const step =
      { ArrowLeft: -0.05, ArrowUp: -0.05, ArrowRight: 0.05, ArrowDown: 0.05, Home: -1, End: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    moveSquare(at + step, 300); // several key presses cause one request
  });

  // --- payloads from the server ---

  function render({ label, notice: problem, picture, size, description }, state) {
    showMessage(shown ? "" : refusal); // a refusal of the URL's image remains while the first photo is shown
    shown = state.image;
    at = shown.at;
    whole.classList.toggle("small", Math.max(...size) <= 128);
    whole.onload = placeSquare;
    whole.src = picture.url;
    whole.alt = description;
    const isMovable = Math.abs(size[0] - size[1]) > 0.02 * Math.max(...size);
    const warning = problem ? drawNotice(problem) : nothing;
    draw(
      [
        warning,
        description,
        label ? markup` True class: <strong>${label}</strong>.` : nothing,
        isMovable ? " Drag the square to choose the input of the models." : nothing,
      ],
      findPart("about"),
    );
  }

  // The server refused the image: restore the previous image, or the first photo.
  function showError(text) {
    const before = shown ?? store.getInitialImage();
    const isOther = JSON.stringify(before) !== JSON.stringify(store.state.image);
    refusal = [
      `The image could not be shown. ${text}`,
      ...(shown ? ["The previous image is still shown."] : []),
    ].join(" ");
    showMessage(refusal);
    if (isMissingDataset(text)) findPart("say").replaceChildren(makeElement(drawDatasetCard("compact")));
    if (before && isOther) choose(before, { isCorrection: true });
  }

  new ResizeObserver(placeSquare).observe(frame);
  return { render, showError };
}

store.define("image_input", { isFirst: true, create });
