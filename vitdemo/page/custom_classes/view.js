// The columns "Images" and "Train": an editor of classes and images, and buttons that train, save, share and fine-tune models.
// Each step of the editor is one action, so that no step is lost.
import "./results.js";
import "./trial.js";
import { createCamera, drawNotice, saveAs } from "../components/shared.js";
import { createProgressLine } from "../components/task_panel.js";
import { getFolder, listFolderFiles, takeFiles, uploadFiles } from "../components/uploads.js";
import { markup, nothing, render } from "../markup.js";
import * as store from "../store.js";
import { CANCEL, CLOSE_CAMERA, fillPlural, OPEN_CAMERA } from "../texts.js";

const CLASS_NAME_LABEL = "Class name";
const PATHS_TEXT = "The paths are class/image.";
const [MODELS, RESULT, TRIAL] = ["models", "result", "trial"].map((name) => `custom_classes_${name}`);
// fields of the models' data, folded under "More"
const ACTIONS = ["can_save", "can_save_images", "can_publish", "can_unpublish", "can_fine_tune"];
const AUDIENCE = "own.audience"; // who sees the next fine-tuned model: "me" or "all"
const MAX_FILES = 500; // per folder; the limit of a collection
const SHOT_INTERVAL = 250; // milliseconds between two camera photos
const POLL_SECONDS = 2; // seconds between two requests for the progress of fine-tuning

const AUDIENCES = {
  me: [
    "Only you",
    "The model appears in every tab, but only for you. The server deletes the model and your images one hour after your last use of this tab.",
  ],
  all: [
    "All users of this page",
    "All users see the training run and its results, and can use the model. The server keeps your images in the run folder until someone deletes the run in the tab Train.",
  ],
};

// --- the editor ---

const EDITOR_MARKUP = markup`
  <p class="first">Start with two classes, such as “cup” and “pen”.</p>
  <form class="add">
    <input type="text" class="name" maxlength="40" autocomplete="off" placeholder="${CLASS_NAME_LABEL}"
      aria-label="${CLASS_NAME_LABEL}">
    <button type="submit" class="primary">Add class</button>
  </form>
  <div class="ways">
    <button type="button" class="tests">Add example classes</button>
    <label class="file" title="${PATHS_TEXT}">
      <input type="file" class="folder" webkitdirectory multiple>
      <span>Add folder</span>
    </label>
    <label class="file" title="${PATHS_TEXT}">
      <input type="file" class="zip" accept=".zip">
      <span>Add zip file</span>
    </label>
  </div>
  <div class="screen" hidden>
    <video muted playsinline></video>
    <button type="button" class="take">Hold to take photos</button>
    <button type="button" class="leave">${CLOSE_CAMERA}</button>
  </div>
  <div class="state">
    <p class="say" role="status"></p>
    <button type="button" class="undo" hidden>Undo</button>
  </div>
  <div class="failure"></div>
  <ul class="problems"></ul>
  <div class="list"></div>
`;

let imageCount = 0; // number of images on the server
let clearMessage = () => {}; // removes the message about the models

// The images are lost when the page is closed, so the browser asks first.
window.addEventListener("beforeunload", (event) => {
  if (imageCount) event.preventDefault();
});

function createEditor(element, { upload }) {
  render(EDITOR_MARKUP, element);
  const findPart = (name) => element.querySelector("." + name);
  const showMessage = (text) => (findPart("say").textContent = text);
  const showError = (error) => render(error ? drawNotice(error) : nothing, findPart("failure"));
  function edit(what, rest = {}) {
    clearMessage();
    store.act("own.edit", { what, ...rest }, showError);
  }
  let drawn = {}; // the last payload

  // Upload the files, then edit with their paths and `rest(files)`. The request names the class, because an index
  // changes when another class is removed.
  async function send(files, what, rest = () => ({})) {
    const sent = await uploadFiles(files, upload, showMessage);
    if (sent?.paths.length) edit(what, { paths: sent.paths, ...rest(sent.files) });
  }

  // Upload a folder. The class of a file is the folder that contains it.
  function sendFolder(files) {
    const shown = listFolderFiles(files, drawn.system ?? [], MAX_FILES, showMessage);
    if (shown) send(shown, "folder", (sent) => ({ names: sent.map(getFolder) }));
  }

  const shutter = createShutter(
    findPart,
    showMessage,
    (files, name) => send(files, "pictures", () => ({ name })),
  );

  function drawImageButton({ name }, index, i) {
    return markup`<button type="button" data-pick="${index}.${i}" style="--at: ${i}"
      aria-label="Remove image ${i + 1} of ${name}"
      @click=${() => edit("remove", { name, picture: i })}></button>`;
  }

  // Images that are dropped on a class are added to it.
  const makeDragListener = (isOver) => (event) => {
    event.preventDefault(); // required to allow dropping
    event.currentTarget.classList.toggle("over", isOver);
  };
  const makeDropListener = (name) => (event) => {
    makeDragListener(false)(event);
    send([...event.dataTransfer.files], "pictures", () => ({ name }));
  };

  function drawClass({ name, count, sheet }, index) {
    const add = ({ target }) => send(takeFiles(target), "pictures", () => ({ name }));
    const pictures = Array.from({ length: count }, (_, i) => drawImageButton({ name }, index, i));
    return markup`<section class="own" aria-label=${name} @dragover=${makeDragListener(true)}
      @dragleave=${makeDragListener(false)} @drop=${makeDropListener(name)}>
      <header>
        <h3>${name}</h3>
        <small>${fillPlural(count, "{count} image", "{count} images")}</small>
        <button type="button" aria-label="Remove class ${name}" data-pick="remove ${index}"
          @click=${() => edit("remove", { name })}>Remove</button>
        <label class="file add-images" title="You can also drop image files on the class."><input type="file" multiple accept=${drawn.accept}
          aria-label="Add images of ${name}" @change=${add}><span>Add images</span></label>
        <button type="button" class="add-images" data-pick="camera ${index}"
          @click=${() => shutter.open(name)}>${OPEN_CAMERA}</button>
      </header>
      <div class="thumbs" style=${sheet ? `--sheet: url("${sheet.url}")` : nothing}>${pictures}</div>
    </section>`;
  }

  function draw(data) {
    drawn = data;
    imageCount = data.classes.reduce((sum, { count }) => sum + count, 0);
    shutter.keepClasses(data.classes.map(({ name }) => name));
    showMessage(data.message);
    render(data.problems.map((text) => markup`<li>${text}</li>`), findPart("problems"));
    findPart("undo").hidden = !data.can_undo;
    findPart("first").hidden = data.classes.length > 0;
    findPart("add").querySelector("button").classList.toggle("primary", data.classes.length < 2);
    render(data.classes.map(drawClass), findPart("list"));
  }

  findPart("add").addEventListener("submit", (event) => {
    event.preventDefault();
    edit("class", { name: findPart("name").value });
    findPart("name").value = "";
  });
  findPart("zip").addEventListener("change", () => send(takeFiles(findPart("zip")), "zip"));
  findPart("folder").addEventListener("change", () => sendFolder(takeFiles(findPart("folder"))));
  findPart("undo").addEventListener("click", () => edit("undo"));
  findPart("tests").addEventListener("click", () => edit("tests"));
  return { render: draw, showError };
}

// The camera of the editor: `open(name)` shows it for a class, `keepClasses(names)` closes it if its class was removed.
// `send(files, name)` receives the photos that were taken while the button was held.
function createShutter(findPart, showMessage, send) {
  const screen = findPart("screen");
  const live = createCamera(screen.querySelector("video"), showMessage);
  let taken = null; // name of the class to which photos are added
  let timer = null;
  let shots = [];

  function closeCamera() {
    clearInterval(timer);
    timer = null;
    live.close();
    screen.hidden = true;
  }

  async function open(name) {
    screen.hidden = false; // Some browsers do not play hidden videos.
    if (!(await live.open())) return closeCamera();
    taken = name;
    findPart("take").focus();
  }

  function shoot() {
    const name = `camera-${Date.now()}.jpg`;
    shots.push(live.takePhoto("image/jpeg").then((blob) => new File([blob], name, { type: blob.type })));
    showMessage(fillPlural(shots.length, "{count} photo taken", "{count} photos taken"));
  }

  function hold() {
    if (timer) return;
    shots = [];
    shoot();
    timer = setInterval(shoot, SHOT_INTERVAL);
  }

  async function release() {
    if (!timer) return;
    clearInterval(timer);
    timer = null;
    const name = taken; // saved now, because the user may open the camera for another class during the upload
    await send(await Promise.all(shots), name);
  }

  function keepClasses(names) {
    if (taken !== null && !names.includes(taken)) closeCamera();
  }

  findPart("leave").addEventListener("click", closeCamera);
  for (const name of ["pointerdown", "keydown"]) {
    findPart("take").addEventListener(name, (event) => {
      if (!event.key || event.key === " ") hold();
    });
  }
  for (const name of ["pointerup", "pointerleave", "keyup", "blur"]) {
    findPart("take").addEventListener(name, release);
  }
  return { keepClasses, open };
}

// --- the models ---

const drawButton = (text, click, { id = nothing, className = "vd-download" } = {}) =>
  markup`<button type="button" class=${className} id=${id} data-pick=${text} @click=${click}>${text}</button>`;

function drawAudience(name) {
  const [label, text] = AUDIENCES[name];
  return markup`<label><input type="radio" name=${AUDIENCE} value=${name} .checked=${
    store.state[AUDIENCE] === name
  }
    @change=${() =>
    store.set({ [AUDIENCE]: name })}><span><strong>${label}</strong>${` ${text}`}</span></label>`;
}

function createModels(element) {
  const progress = createProgressLine("percent");
  let drawn = { missing: "" }; // the last payload
  let running = false; // whether a task runs
  let asksWho = false; // whether the question before fine-tuning is shown
  let message = nothing; // message about the last task or action

  function showMessage(text) {
    message = text ? drawNotice(text) : nothing;
    draw();
  }
  const act = (name) => store.act(name, {}, (error) => error && showMessage(error));

  function start(task, views) {
    showMessage("");
    store.startTask(`own.${task}`, ({ error, ...state }) => {
      running = !state.end;
      progress.show({ ...state, error: null });
      if (error) showMessage(error);
      if (state.cancelled && task === "train") {
        showMessage("Training was cancelled, so no new classifier was saved.");
      }
      if (state.data?.file) saveAs(state.data.file.url, state.data.name);
      if (state.end) views.forEach(store.invalidate);
      draw();
    });
  }

  function drawBeginButton({ missing, is_current: isCurrent }) {
    if (running) return drawButton(CANCEL, () => store.cancelTask(), { id: "own-stop" });
    if (missing) return markup`<p class="missing">${missing}</p>`;
    const className = isCurrent ? "vd-download" : "vd-download primary";
    return drawButton("Train classifier", () => start("train", [MODELS, RESULT, TRIAL]), {
      id: "own-train",
      className,
    });
  }

  const actions = {
    can_save: () => drawButton("Save the model (.zip)", () => start("save", []), { id: "own-save" }),
    can_save_images: () =>
      drawButton("Save the images (.zip)", () => start("save_images", []), { id: "own-save-images" }),
    can_publish: () => drawButton("Publish to all users", () => act("own.publish")),
    can_unpublish: () => drawButton("Unpublish", () => act("own.unpublish")),
    can_fine_tune: () => drawButton("Fine-tune the whole model", askWho),
  };

  // Ask who may see the model before the images are used. Initially, "only the user" is chosen.
  function askWho() {
    showMessage(drawn.refusal);
    if (drawn.refusal) return;
    asksWho = true;
    store.set({ [AUDIENCE]: "me" });
    draw();
    element.querySelector("#own-audience input").focus();
  }

  function drawQuestion() {
    const confirm = drawButton("Start fine-tuning", () => {
      asksWho = false;
      start("fine_tune", [MODELS]);
    });
    const cancel = drawButton(CANCEL, () => {
      asksWho = false;
      draw();
      element.querySelector(".more .buttons button:last-of-type")?.focus();
    });
    return markup`<fieldset id="own-audience">
      <legend>Who may see the fine-tuned model?</legend>
      ${Object.keys(AUDIENCES).map(drawAudience)}
      <div class="buttons">${confirm}${cancel}</div>
    </fieldset>`;
  }

  // The line of the private fine-tuning.
  function drawTunedLine({ text, done, is_active: isActive, can_save: canSave }) {
    const words = isActive ? `Fine-tuning: ${text}` : text;
    const drawBar = () => markup`<progress max="1" aria-label="Fine-tuning" .value=${done}></progress>`;
    const drawSaveButton = () =>
      drawButton("Save the fine-tuned model (.zip)", () => start("save_fine_tuned", []));
    const end = drawButton(
      isActive ? "Cancel fine-tuning" : "Delete the fine-tuned model",
      () => act("own.discard"),
    );
    return markup`<div class="vd-progress"><p>${
      isActive ? drawBar() : nothing
    }<span role="status">${words}</span>${canSave ? drawSaveButton() : nothing}${end}</p></div>`;
  }

  function draw() {
    const names = ACTIONS.filter((name) => drawn[name] && !running);
    const isAsked = asksWho && drawn.can_fine_tune && !running;
    render(
      markup`<div class="buttons">${drawBeginButton(drawn)}</div>
        ${progress.place}
        <div id="own-told">${message}</div>
        <div>${drawn.tuned ? drawTunedLine(drawn.tuned) : nothing}</div>
        <details class="more" ?hidden=${!names.length}>
          <summary>More: save, share, fine-tune</summary>
          <div class="buttons">${names.map((name) => actions[name]())}</div>
          <div>${isAsked ? drawQuestion() : nothing}</div>
        </details>`,
      element,
    );
  }

  clearMessage = () => showMessage("");
  draw();
  return {
    render(data) {
      const isNew = data.notice !== drawn.notice || data.refusal !== drawn.refusal;
      drawn = data;
      if (isNew) showMessage(data.notice);
      draw();
    },
    showError: showMessage,
  };
}

store.define("custom_classes", { skeleton: "line", create: createEditor });
store.define(MODELS, {
  skeleton: "line",
  pollSeconds: ({ tuned }) => (tuned?.is_active ? POLL_SECONDS : 0),
  create: createModels,
});
