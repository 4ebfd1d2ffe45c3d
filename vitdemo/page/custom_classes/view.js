// The columns "Images" and "Train": an editor of classes and images, and buttons that train, save, share and fine-tune models.
// Each step of the editor is one action, so that no step is lost.
import "./results.js";
import "./trial.js";
import { createCamera, drawNotice, saveAs } from "../components/shared.js";
import { createProgressLine } from "../components/task_panel.js";
import { getFolder, listFolderFiles, takeFiles, uploadFiles } from "../components/uploads.js";
import { markup, nothing, render } from "../markup.js";
import * as store from "../store.js";
import { fill, fillPlural, TEXTS } from "../texts.js";

const texts = TEXTS.custom_classes;
const [MODELS, RESULT, TRIAL] = ["models", "result", "trial"].map((name) => `custom_classes_${name}`);
// fields of the models' data, folded under "More"
const ACTIONS = ["can_save", "can_save_images", "can_publish", "can_unpublish", "can_fine_tune"];
const AUDIENCE = "own.audience"; // who sees the next fine-tuned model: "me" or "all"
const MAX_FILES = 500; // per folder; the limit of a collection
const SHOT_INTERVAL = 250; // milliseconds between two camera photos
const POLL_SECONDS = 2; // seconds between two requests for the progress of fine-tuning

const CANCEL = TEXTS.task_panel.cancel;
const AUDIENCES = {
  me: [texts.only_user, texts.only_user_help],
  all: [texts.all_users, texts.all_users_help],
};

// --- the editor ---

const EDITOR_MARKUP = markup`
  <p class="first">${texts.first}</p>
  <form class="add">
    <input type="text" class="name" maxlength="40" autocomplete="off" placeholder="${texts.class_name}"
      aria-label="${texts.class_name}">
    <button type="submit" class="primary">${texts.add_class}</button>
  </form>
  <div class="ways">
    <button type="button" class="tests">${texts.add_examples}</button>
    <label class="file" title="${texts.paths}">
      <input type="file" class="folder" webkitdirectory multiple>
      <span>${texts.add_folder}</span>
    </label>
    <label class="file" title="${texts.paths}">
      <input type="file" class="zip" accept=".zip">
      <span>${texts.add_zip}</span>
    </label>
  </div>
  <div class="screen" hidden>
    <video muted playsinline></video>
    <button type="button" class="take">${texts.take_photos}</button>
    <button type="button" class="leave">${texts.close_camera}</button>
  </div>
  <div class="state">
    <p class="say" role="status"></p>
    <button type="button" class="undo" hidden>${texts.undo}</button>
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
  const part = (name) => element.querySelector("." + name);
  const say = (text) => (part("say").textContent = text);
  const showError = (error) => render(error ? drawNotice(error) : nothing, part("failure"));
  function edit(what, rest = {}) {
    clearMessage();
    store.act("own.edit", { what, ...rest }, showError);
  }
  let drawn = {}; // the last payload

  // Upload the files, then edit with their paths and `rest(files)`. The request names the class, because an index
  // changes when another class is removed.
  async function send(files, what, rest = () => ({})) {
    const sent = await uploadFiles(files, upload, say);
    if (sent?.paths.length) edit(what, { paths: sent.paths, ...rest(sent.files) });
  }

  // Upload a folder. The class of a file is the folder that contains it.
  function sendFolder(files) {
    const shown = listFolderFiles(files, drawn.system ?? [], MAX_FILES, say);
    if (shown) send(shown, "folder", (sent) => ({ names: sent.map(getFolder) }));
  }

  const shutter = cameraIn(part, say, (files, name) => send(files, "pictures", () => ({ name })));

  function picture({ name }, index, i) {
    return markup`<button type="button" data-pick="${index}.${i}" style="--at: ${i}"
      aria-label=${fill(texts.remove_image, { image: i + 1, name })}
      @click=${() => edit("remove", { name, picture: i })}></button>`;
  }

  // Images that are dropped on a class are added to it.
  const hover = (isOver) => (event) => {
    event.preventDefault(); // allows to drop
    event.currentTarget.classList.toggle("over", isOver);
  };
  const drop = (name) => (event) => {
    hover(false)(event);
    send([...event.dataTransfer.files], "pictures", () => ({ name }));
  };

  function row({ name, count, sheet }, index) {
    const add = ({ target }) => send(takeFiles(target), "pictures", () => ({ name }));
    const pictures = Array.from({ length: count }, (_, i) => picture({ name }, index, i));
    return markup`<section class="own" aria-label=${name} @dragover=${hover(true)}
      @dragleave=${hover(false)} @drop=${drop(name)}>
      <header>
        <h3>${name}</h3>
        <small>${fillPlural(texts, "images", count)}</small>
        <button type="button" aria-label=${fill(texts.remove_class, { name })} data-pick="remove ${index}"
          @click=${() => edit("remove", { name })}>${texts.remove}</button>
        <label class="file add-images" title=${texts.drop}><input type="file" multiple accept=${drawn.accept}
          aria-label=${
      fill(texts.add_images_of, { name })
    } @change=${add}><span>${texts.add_images}</span></label>
        <button type="button" class="add-images" data-pick="camera ${index}"
          @click=${() => shutter.open(name)}>${texts.open_camera}</button>
      </header>
      <div class="thumbs" style=${sheet ? `--sheet: url("${sheet.url}")` : nothing}>${pictures}</div>
    </section>`;
  }

  function draw(data) {
    drawn = data;
    imageCount = data.classes.reduce((sum, { count }) => sum + count, 0);
    shutter.keep(data.classes.map(({ name }) => name));
    say(data.message);
    render(data.problems.map((text) => markup`<li>${text}</li>`), part("problems"));
    part("undo").hidden = !data.can_undo;
    part("first").hidden = data.classes.length > 0;
    part("add").querySelector("button").classList.toggle("primary", data.classes.length < 2);
    render(data.classes.map(row), part("list"));
  }

  part("add").addEventListener("submit", (event) => {
    event.preventDefault();
    edit("class", { name: part("name").value });
    part("name").value = "";
  });
  part("zip").addEventListener("change", () => send(takeFiles(part("zip")), "zip"));
  part("folder").addEventListener("change", () => sendFolder(takeFiles(part("folder"))));
  part("undo").addEventListener("click", () => edit("undo"));
  part("tests").addEventListener("click", () => edit("tests"));
  return { render: draw, showError };
}

// The camera of the editor: `open(name)` shows it for a class, `keep(names)` closes it if its class was removed.
// `send(files, name)` receives the photos that were taken while the button was held.
function cameraIn(part, say, send) {
  const screen = part("screen");
  const live = createCamera(screen.querySelector("video"), say);
  let taken = null; // name of the class that photos are added to
  let timer = null;
  let shots = [];

  function leave() {
    clearInterval(timer);
    timer = null;
    live.close();
    screen.hidden = true;
  }

  async function open(name) {
    screen.hidden = false; // Some browsers do not play hidden videos.
    if (!(await live.open())) return leave();
    taken = name;
    part("take").focus();
  }

  function shoot() {
    const name = `camera-${Date.now()}.jpg`;
    shots.push(live.takePhoto("image/jpeg").then((blob) => new File([blob], name, { type: blob.type })));
    say(fillPlural(texts, "photos", shots.length));
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

  function keep(names) {
    if (taken !== null && !names.includes(taken)) leave();
  }

  part("leave").addEventListener("click", leave);
  for (const name of ["pointerdown", "keydown"]) {
    part("take").addEventListener(name, (event) => {
      if (!event.key || event.key === " ") hold();
    });
  }
  for (const name of ["pointerup", "pointerleave", "keyup", "blur"]) {
    part("take").addEventListener(name, release);
  }
  return { keep, open };
}

// --- the models ---

const button = (text, click, { id = nothing, className = "vd-download" } = {}) =>
  markup`<button type="button" class=${className} id=${id} data-pick=${text} @click=${click}>${text}</button>`;

function audience(name) {
  const [label, text] = AUDIENCES[name];
  return markup`<label><input type="radio" name=${AUDIENCE} value=${name} .checked=${
    store.state[AUDIENCE] === name
  }
    @change=${() =>
    store.set({ [AUDIENCE]: name })}><span><strong>${label}</strong>${` ${text}`}</span></label>`;
}

function createModels(element) {
  const progress = createProgressLine(texts.percent);
  let drawn = { missing: "" }; // the last payload
  let running = false; // whether a task runs
  let asksWho = false; // whether the question before fine-tuning is shown
  let message = nothing; // about the last task or action

  function tell(text) {
    message = text ? drawNotice(text) : nothing;
    draw();
  }
  const act = (name) => store.act(name, {}, (error) => error && tell(error));

  function start(task, views) {
    tell("");
    store.startTask(`own.${task}`, ({ error, ...state }) => {
      running = !state.end;
      progress.show({ ...state, error: null });
      if (error) tell(error);
      if (state.cancelled && task === "train") tell(texts.cancelled);
      if (state.data?.file) saveAs(state.data.file.url, state.data.name);
      if (state.end) views.forEach(store.invalidate);
      draw();
    });
  }

  function beginButton({ missing, is_current: isCurrent }) {
    if (running) return button(CANCEL, () => store.cancelTask(), { id: "own-stop" });
    if (missing) return markup`<p class="missing">${missing}</p>`;
    const className = isCurrent ? "vd-download" : "vd-download primary";
    return button(texts.train, () => start("train", [MODELS, RESULT, TRIAL]), { id: "own-train", className });
  }

  const actions = {
    can_save: () => button(texts.save, () => start("save", []), { id: "own-save" }),
    can_save_images: () =>
      button(texts.save_images, () => start("save_images", []), { id: "own-save-images" }),
    can_publish: () => button(texts.publish, () => act("own.publish")),
    can_unpublish: () => button(texts.unpublish, () => act("own.unpublish")),
    can_fine_tune: () => button(texts.fine_tune, askWho),
  };

  // Ask who may see the model before the images are used; the first answer, only the user, is chosen.
  function askWho() {
    tell(drawn.refusal);
    if (drawn.refusal) return;
    asksWho = true;
    store.set({ [AUDIENCE]: "me" });
    draw();
    element.querySelector("#own-audience input").focus();
  }

  function questionForm() {
    const confirm = button(texts.start_fine_tuning, () => {
      asksWho = false;
      start("fine_tune", [MODELS]);
    });
    const cancel = button(CANCEL, () => {
      asksWho = false;
      draw();
      element.querySelector(".more .buttons button:last-of-type")?.focus();
    });
    return markup`<fieldset id="own-audience">
      <legend>${texts.audience}</legend>
      ${Object.keys(AUDIENCES).map(audience)}
      <div class="buttons">${confirm}${cancel}</div>
    </fieldset>`;
  }

  // The line of the private fine-tuning.
  function tunedLine({ text, done, is_active: isActive, can_save: canSave }) {
    const words = isActive ? fill(texts.fine_tuning_progress, { progress: text }) : text;
    const bar = () => markup`<progress max="1" aria-label=${texts.fine_tuning} .value=${done}></progress>`;
    const save = () => button(texts.save_fine_tuned, () => start("save_fine_tuned", []));
    const end = button(
      isActive ? texts.cancel_fine_tuning : texts.delete_fine_tuned,
      () => act("own.discard"),
    );
    return markup`<div class="vd-progress"><p>${
      isActive ? bar() : nothing
    }<span role="status">${words}</span>${canSave ? save() : nothing}${end}</p></div>`;
  }

  function draw() {
    const names = ACTIONS.filter((name) => drawn[name] && !running);
    const isAsked = asksWho && drawn.can_fine_tune && !running;
    render(
      markup`<div class="buttons">${beginButton(drawn)}</div>
        ${progress.place}
        <div id="own-told">${message}</div>
        <div>${drawn.tuned ? tunedLine(drawn.tuned) : nothing}</div>
        <details class="more" ?hidden=${!names.length}>
          <summary>${texts.more}</summary>
          <div class="buttons">${names.map((name) => actions[name]())}</div>
          <div>${isAsked ? questionForm() : nothing}</div>
        </details>`,
      element,
    );
  }

  clearMessage = () => tell("");
  draw();
  return {
    render(data) {
      const isNew = data.notice !== drawn.notice || data.refusal !== drawn.refusal;
      drawn = data;
      if (isNew) tell(data.notice);
      draw();
    },
    showError: tell,
  };
}

store.define("custom_classes", { skeleton: "line", create: createEditor });
store.define(MODELS, {
  skeleton: "line",
  pollSeconds: ({ tuned }) => (tuned?.is_active ? POLL_SECONDS : 0),
  create: createModels,
});
