// The columns "Images" and "Train": an editor of classes and images, and buttons that train, save, share and fine-tune models.
// Each step of the editor is one action, so that no step is lost.
import "./results.js";
import "./trial.js";
import { camera, make, notice, redraw, saveAs } from "../components/shared.js";
import { progressLine } from "../components/task_panel.js";
import * as store from "../store.js";
import { fill, fillPlural, html, TEXTS } from "../texts.js";

const texts = TEXTS.custom_classes;
const [EDITOR, MODELS, RESULT, TRIAL] = [
  "custom_classes",
  "custom_classes_models",
  "custom_classes_result",
  "custom_classes_trial",
];
const ACTIONS = ["can_save", "can_publish", "can_unpublish", "can_fine_tune"]; // fields of the models' data, folded under "More"
const MODEL = "own.model";
const AUDIENCE = "own.audience"; // who sees the next fine-tuned model: "me" or "all"
const MAX_FILE_BYTES = 60e6; // the server has the same limit
const MAX_FILES = 500; // per folder; the limit of a collection
const SHOT_INTERVAL = 250; // milliseconds between two camera photos
const POLL_SECONDS = 2; // seconds between two requests for the progress of fine-tuning

const CANCEL = TEXTS.task_panel.cancel;
const AUDIENCES = {
  me: [texts.only_user, texts.only_user_help],
  all: [texts.all_users, texts.all_users_help],
};

// --- the editor ---

const EDITOR_HTML = html`
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
  element.innerHTML = EDITOR_HTML;
  const part = (name) => element.querySelector("." + name);
  const say = (text) => (part("say").textContent = text);
  function edit(what, rest = {}) {
    clearMessage();
    store.act("own.edit", { what, ...rest }, (error) => error && say(error));
  }
  let drawn = {}; // the last payload

  // Return the chosen files. The value is cleared so that the same files can be chosen again.
  function chosen(input) {
    const files = [...input.files];
    input.value = "";
    return files;
  }

  // Upload the files, then edit with their paths and `rest(files)`. The request names the class, because an index
  // changes when another class is removed.
  async function send(files, what, rest = () => ({})) {
    const small = files.filter((file) => file.size <= MAX_FILE_BYTES);
    if (small.length < files.length) say(fill(texts.too_large, { megabytes: MAX_FILE_BYTES / 1e6 }));
    const paths = [];
    for (const file of small) {
      say(fill(texts.uploading, { file: paths.length + 1, files: small.length }));
      try {
        paths.push((await upload(file)).path);
      } catch {
        return say(texts.upload_failed);
      }
    }
    say("");
    if (paths.length) edit(what, { paths, ...rest(small) });
  }

  // Return whether the file or one of its folders is a system file. The server applies the complete rule.
  const isSystemFile = ({ webkitRelativePath }) =>
    webkitRelativePath.split("/").some((name) =>
      /^(\.|~\$)/.test(name) || drawn.system?.includes(name.toLowerCase())
    );

  // Upload a folder. The class of a file is the folder that contains it.
  function sendFolder(files) {
    const shown = files.filter((file) => !isSystemFile(file));
    if (shown.length > MAX_FILES) {
      return say(fillPlural(texts, "too_many", shown.length, { limit: MAX_FILES }));
    }
    return send(
      shown,
      "folder",
      (sent) => ({ names: sent.map((file) => file.webkitRelativePath.split("/").slice(0, -1).join("/")) }),
    );
  }

  const shutter = cameraIn(part, say, (files, name) => send(files, "pictures", () => ({ name })));

  function picture({ name }, index, i) {
    const button = make("button", {
      type: "button",
      "data-pick": `${index}.${i}`,
      style: `--at: ${i}`,
      "aria-label": fill(texts.remove_image, { image: i + 1, name }),
    });
    button.addEventListener("click", () => edit("remove", { name, picture: i }));
    return button;
  }

  function row(own, index) {
    const files = make("input", {
      type: "file",
      multiple: true,
      accept: drawn.accept,
      "aria-label": fill(texts.add_images_of, { name: own.name }),
    });
    files.addEventListener("change", () => {
      send(chosen(files), "pictures", () => ({ name: own.name }));
    });
    const open = make("button", {
      type: "button",
      className: "add-images",
      text: texts.open_camera,
      "data-pick": `camera ${index}`,
    });
    open.addEventListener("click", () => shutter.open(own.name));
    const remove = make("button", {
      type: "button",
      text: texts.remove,
      "aria-label": fill(texts.remove_class, { name: own.name }),
      "data-pick": `remove ${index}`,
    });
    remove.addEventListener("click", () => edit("remove", { name: own.name }));
    const thumbs = make(
      "div",
      { className: "thumbs" },
      ...Array.from({ length: own.count }, (_, i) => picture(own, index, i)),
    );
    if (own.sheet) thumbs.style.setProperty("--sheet", `url("${own.sheet.url}")`);
    const count = make("small", { text: fillPlural(texts, "images", own.count) });
    const add = make(
      "label",
      { className: "file add-images" },
      files,
      make("span", { text: texts.add_images }),
    );
    return make(
      "section",
      { className: "own", "aria-label": own.name },
      make("header", {}, make("h3", { text: own.name }), count, remove, add, open),
      thumbs,
    );
  }

  function render(data) {
    drawn = data;
    imageCount = data.classes.reduce((sum, { count }) => sum + count, 0);
    shutter.keep(data.classes.map(({ name }) => name));
    say(data.message);
    part("problems").replaceChildren(...data.problems.map((text) => make("li", { text })));
    part("undo").hidden = !data.can_undo;
    part("first").hidden = data.classes.length > 0;
    part("add").querySelector("button").classList.toggle("primary", data.classes.length < 2);
    redraw(part("list"), ...data.classes.map(row));
  }

  part("add").addEventListener("submit", (event) => {
    event.preventDefault();
    edit("class", { name: part("name").value });
    part("name").value = "";
  });
  part("zip").addEventListener("change", () => send(chosen(part("zip")), "zip"));
  part("folder").addEventListener("change", () => sendFolder(chosen(part("folder"))));
  part("undo").addEventListener("click", () => edit("undo"));
  part("tests").addEventListener("click", () => edit("tests"));
  return { render, showError: say };
}

// The camera of the editor: `open(name)` shows it for a class, `keep(names)` closes it if its class was removed.
// `send(files, name)` receives the photos that were taken while the button was held.
function cameraIn(part, say, send) {
  const screen = part("screen");
  const live = camera(screen.querySelector("video"), say);
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
    shots.push(live.still("image/jpeg").then((blob) => new File([blob], name, { type: blob.type })));
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

function createModels(element) {
  const row = () => make("div", { className: "buttons" });
  const [begin, actions, question, tuned] = [row(), row(), make("div"), make("div")];
  const more = make(
    "details",
    { className: "more", hidden: true },
    make("summary", { text: texts.more }),
    actions,
    question,
  );
  const progress = progressLine(texts.percent);
  const told = make("div", { id: "own-told" });
  element.append(begin, progress.place, told, tuned, more);
  let drawn = { missing: "" }; // the last payload
  let running = false; // whether a task runs
  let asksWho = false; // whether the question before fine-tuning is shown
  const shown = new Map(); // element -> JSON of what it shows

  const tell = (error) => told.replaceChildren(...(error ? [notice(error)] : []));
  const act = (name) => store.act(name, {}, (error) => error && tell(error));

  function button(text, clicked, properties = {}) {
    const made = make("button", {
      type: "button",
      className: "vd-download",
      text,
      "data-pick": text,
      ...properties,
    });
    made.addEventListener("click", clicked);
    return made;
  }

  function start(task, views) {
    tell("");
    store.startTask(`own.${task}`, (message) => {
      running = !message.end;
      progress.show({ ...message, error: null });
      if (message.error) tell(message.error);
      if (message.cancelled && task === "train") tell(texts.cancelled);
      if (message.data?.file) saveAs(message.data.file.url, message.data.name);
      if (message.end) views.forEach(store.invalidate);
      draw();
    });
  }

  // Draw `build(value)` in `place` if the value has changed: a click on a button that is replaced meanwhile is lost.
  function update(place, value, build) {
    const text = JSON.stringify(value);
    if (shown.get(place) === text) return;
    shown.set(place, text);
    redraw(place, ...build(value));
  }

  function beginButtons({ missing, isCurrent }) {
    if (running) return [button(CANCEL, () => store.cancelTask(), { id: "own-stop" })];
    if (missing) return [make("p", { className: "missing", text: missing })];
    return [
      button(texts.train, () => start("train", [MODELS, RESULT, TRIAL]), {
        id: "own-train",
        className: isCurrent ? "vd-download" : "vd-download primary",
      }),
    ];
  }

  function actionButtons(names) {
    const all = {
      can_save: () => button(texts.save, () => start("save", []), { id: "own-save" }),
      can_publish: () => button(texts.publish, () => act("own.publish")),
      can_unpublish: () => button(texts.unpublish, () => act("own.unpublish")),
      can_fine_tune: () => button(texts.fine_tune, askWho),
    };
    return names.map((name) => all[name]());
  }

  // Ask who may see the model before the images are used; the first answer, only the user, is chosen.
  function askWho() {
    tell(drawn.refusal);
    if (drawn.refusal) return;
    asksWho = true; // the form is drawn again, with its first option
    shown.delete(question);
    store.set({ [AUDIENCE]: "me" });
    draw();
    question.querySelector("input").focus();
  }

  function closeQuestion() {
    asksWho = false;
    draw();
  }

  function audience(name) {
    const [label, text] = AUDIENCES[name];
    const radio = make("input", {
      type: "radio",
      name: AUDIENCE,
      value: name,
      checked: store.state[AUDIENCE] === name,
    });
    radio.addEventListener("change", () => store.set({ [AUDIENCE]: name }));
    return make("label", {}, radio, make("span", {}, make("strong", { text: label }), ` ${text}`));
  }

  function questionForm() {
    const confirm = button(texts.start_fine_tuning, () => {
      asksWho = false;
      start("fine_tune", [MODELS]);
    });
    const cancel = button(CANCEL, () => {
      closeQuestion();
      [...actions.children].at(-1)?.focus();
    });
    return make(
      "fieldset",
      { id: "own-audience" },
      make("legend", { text: texts.audience }),
      ...Object.keys(AUDIENCES).map(audience),
      make("div", { className: "buttons" }, confirm, cancel),
    );
  }

  // The line of the private fine-tuning; its progress is written by `drawTuned`.
  function tunedLine({ isActive, canSave }) {
    const save = canSave ? button(texts.save_fine_tuned, () => start("save_fine_tuned", [])) : null;
    const label = isActive ? texts.cancel_fine_tuning : texts.delete_fine_tuned;
    const bar = isActive ? make("progress", { max: 1, "aria-label": texts.fine_tuning }) : null;
    return make(
      "div",
      { className: "vd-progress" },
      make("p", {}, bar, make("span", { role: "status" }), save, button(label, () => act("own.discard"))),
    );
  }

  function drawTuned({ text, done, is_active: isActive }) {
    const words = isActive ? fill(texts.fine_tuning_progress, { progress: text }) : text;
    const status = tuned.querySelector("[role=status]");
    if (status.textContent !== words) status.textContent = words;
    if (isActive) tuned.querySelector("progress").value = done;
  }

  function draw() {
    update(begin, { running, missing: drawn.missing, isCurrent: drawn.is_current }, beginButtons);
    const names = ACTIONS.filter((name) => drawn[name] && !running);
    more.hidden = !names.length;
    update(actions, names, actionButtons);
    update(
      question,
      asksWho && drawn.can_fine_tune && !running,
      (isAsked) => (isAsked ? [questionForm()] : []),
    );
    const { is_active: isActive, can_save: canSave } = drawn.tuned ?? {};
    update(
      tuned,
      drawn.tuned ? { isActive, canSave } : null,
      (state) => (state === null ? [] : [tunedLine(state)]),
    );
    if (drawn.tuned) drawTuned(drawn.tuned);
  }

  function render(data) {
    const isNew = data.notice !== drawn.notice || data.refusal !== drawn.refusal;
    drawn = data;
    if (isNew) tell(data.notice);
    draw();
  }

  clearMessage = () => tell("");
  draw();
  return { render, showError: tell };
}

store.state[AUDIENCE] = "me";
store.define(EDITOR, { needs: [], create: createEditor });
store.define(MODELS, {
  needs: [MODEL],
  pollSeconds: ({ tuned }) => (tuned?.is_active ? POLL_SECONDS : 0),
  create: createModels,
});
