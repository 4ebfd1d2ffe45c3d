// The column "Images": an editor of classes and images. Each step is one action, so that no step is lost.
import { drawNotice, makeRange } from "../components/shared.js";
import {
  getFolder,
  listDroppedFiles,
  listFolderFiles,
  takeFiles,
  uploadFiles,
} from "../components/uploads.js";
import { markup, nothing, render } from "../markup.js";
import * as store from "../store.js";
import { CLOSE_CAMERA, fillPlural, OPEN_CAMERA } from "../texts.js";
import { attachShutter } from "./shutter.js";

export const EDITED = "vitdemo:images-edited"; // event of the document
const CLASS_NAME_LABEL = "Class name";
const MAX_FILES = 500; // the limit of a collection

const EDITOR_MARKUP = markup`
  <div class="drop">
    <form class="add">
      <input type="text" class="name" maxlength="40" autocomplete="off" placeholder="${CLASS_NAME_LABEL}, such as cup"
        aria-label="${CLASS_NAME_LABEL}">
    </form>
    <div class="ways">
      <button type="button" class="open primary">${OPEN_CAMERA}</button>
      <details class="add-images">
        <summary>Add images</summary>
        <div>
          <label class="file"><input type="file" class="files" multiple><span>Files or zip file</span></label>
          <label class="file"><input type="file" class="folder" webkitdirectory multiple><span>Folder</span></label>
          <button type="button" class="tests">Example classes</button>
        </div>
      </details>
    </div>
    <div class="screen" hidden>
      <video muted playsinline></video>
      <button type="button" class="take">Hold to take photos</button>
      <button type="button" class="leave">${CLOSE_CAMERA}</button>
    </div>
    <p class="hint">Or drop images, folders or a zip file here. Each folder becomes a class.</p>
  </div>
  <div class="state">
    <p class="say" role="status"></p>
    <button type="button" class="undo" hidden>Undo</button>
  </div>
  <div class="failure"></div>
  <ul class="problems"></ul>
  <div class="list"></div>
`;

// Listeners of an element on which files are dropped. `add(files)` also receives the files of dropped folders.
function makeDropListeners(add) {
  const makeMark = (isOver) => (event) => {
    event.preventDefault(); // required to allow dropping
    event.stopPropagation();
    event.currentTarget.classList.toggle("over", isOver);
  };
  const takeDrop = async (event) => {
    makeMark(false)(event);
    add(await listDroppedFiles(event.dataTransfer));
  };
  return { dragover: makeMark(true), dragleave: makeMark(false), drop: takeDrop };
}

// A class with its images. `add(files)` adds images to it, `remove(fields)` removes the class or one image, and `choose()`
// makes it the class of further images.
function drawClass({ name, count, sheet }, index, isChosen, { add, choose, remove }) {
  const { dragover, dragleave, drop } = makeDropListeners(add);
  const drawImageButton = (i) =>
    markup`<button type="button" data-pick="${index}.${i}" style="--at: ${i}"
      aria-label="Remove image ${i + 1} of ${name}" @click=${() => remove({ image: i })}></button>`;
  return markup`<section class=${isChosen ? "own chosen" : "own"} aria-label=${name} @dragover=${dragover}
    @dragleave=${dragleave} @drop=${drop}>
    <header>
      <h3><button type="button" aria-pressed=${String(isChosen)} title="Add further images to this class"
        data-pick="choose ${index}" @click=${choose}>${name}</button></h3>
      <small>${fillPlural(count, "{count} image", "{count} images")}</small>
      <button type="button" aria-label="Remove class ${name}" data-pick="remove ${index}"
        @click=${() => remove({})}>Remove</button>
    </header>
    <div class="thumbs" style=${sheet ? `--sheet: url("${sheet.url}")` : nothing}>${
    makeRange(count, drawImageButton)
  }</div>
  </section>`;
}

// A menu that closes after a click outside, and with Escape.
function attachMenu(menu) {
  document.addEventListener("pointerdown", ({ target }) => {
    if (!menu.contains(target)) menu.open = false;
  });
  menu.addEventListener("keydown", ({ key }) => {
    if (key !== "Escape") return;
    menu.open = false;
    menu.firstElementChild.focus();
  });
}

function createEditor(element, { upload }) {
  render(EDITOR_MARKUP, element);
  const findPart = (name) => element.querySelector("." + name);
  const showMessage = (text) => (findPart("say").textContent = text);
  const showError = (error) => render(error ? drawNotice(error) : nothing, findPart("failure"));
  const getName = () => findPart("name").value.trim();
  function edit(what, rest = {}) {
    document.dispatchEvent(new Event(EDITED));
    store.act("own.edit", { what, ...rest }, showError);
  }
  let drawn = { classes: [], system: [] }; // the last payload
  // The images are lost when the page is closed, so the browser asks first.
  addEventListener("beforeunload", (event) => {
    if (element.isConnected && drawn.classes.some(({ count }) => count)) event.preventDefault();
  });

  // Upload files and add them. Files without a folder belong to the class `name`.
  async function addFiles(files, name = getName()) {
    const shown = listFolderFiles(files, drawn.system, MAX_FILES, showMessage);
    const sent = shown && await uploadFiles(shown, upload, showMessage);
    if (sent?.paths.length) edit("add", { name, paths: sent.paths, folders: sent.files.map(getFolder) });
  }

  attachShutter(findPart, showMessage, getName, addFiles);

  function choose(name) {
    findPart("name").value = name;
    drawClasses();
  }
  const makeListeners = (name) => ({
    add: (files) => addFiles(files, name),
    choose: () => choose(name),
    remove: (fields) => edit("remove", { name, ...fields }),
  });

  function drawClasses() {
    const chosen = getName().toLowerCase();
    const drawOne = (each, index) =>
      drawClass(each, index, each.name.toLowerCase() === chosen, makeListeners(each.name));
    render(drawn.classes.map(drawOne), findPart("list"));
  }

  function draw(data) {
    drawn = data;
    const { accept, can_undo: canUndo, classes, message, problems } = data;
    showMessage(message);
    render(problems.map((text) => markup`<li>${text}</li>`), findPart("problems"));
    findPart("undo").hidden = !canUndo;
    findPart("files").accept = `${accept},.zip`;
    findPart("open").classList.toggle("primary", classes.length < 2);
    drawClasses();
  }

  function listenToControls() {
    findPart("add").addEventListener("submit", (event) => {
      event.preventDefault();
      edit("class", { name: getName() });
    });
    findPart("name").addEventListener("input", drawClasses);
    findPart("name").addEventListener("focus", () => findPart("name").select());
    for (const name of ["files", "folder"]) {
      findPart(name).addEventListener("change", () => {
        findPart("add-images").open = false;
        addFiles(takeFiles(findPart(name)));
      });
    }
    attachMenu(findPart("add-images"));
    for (const [name, listen] of Object.entries(makeDropListeners((files) => addFiles(files)))) {
      findPart("drop").addEventListener(name, listen);
    }
    findPart("undo").addEventListener("click", () => edit("undo"));
    findPart("tests").addEventListener("click", () => {
      findPart("add-images").open = false;
      edit("tests");
    });
  }

  listenToControls();
  return { render: draw, showError };
}

store.define("custom_classes", { skeleton: "line", create: createEditor });
