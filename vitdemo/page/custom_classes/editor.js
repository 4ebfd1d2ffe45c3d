// The column "Images": an editor of classes and images. Each step is one action, so that no step is lost.
import { drawNotice, makeRange } from "../components/shared.js";
import { getFolder, listFolderFiles, takeFiles, uploadFiles } from "../components/uploads.js";
import { markup, nothing, render } from "../markup.js";
import * as store from "../store.js";
import { CLOSE_CAMERA, fillPlural, OPEN_CAMERA } from "../texts.js";
import { createShutter } from "./shutter.js";

export const EDITED = "vitdemo:images-edited"; // event of the document
const CLASS_NAME_LABEL = "Class name";
const PATHS_TEXT = "The paths are class/image.";
const MAX_FILES = 500; // per folder; the limit of a collection

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

// Images that are dropped on a class are added to it.
const makeDragListener = (isOver) => (event) => {
  event.preventDefault(); // required to allow dropping
  event.currentTarget.classList.toggle("over", isOver);
};

// A class with its images. `add(files)` adds images to it, `remove(fields)` removes the class or one image.
function drawClass({ name, count, sheet }, index, accept, { add, remove, openCamera }) {
  const addDropped = (event) => {
    makeDragListener(false)(event);
    add([...event.dataTransfer.files]);
  };
  const drawImageButton = (i) =>
    markup`<button type="button" data-pick="${index}.${i}" style="--at: ${i}"
      aria-label="Remove image ${i + 1} of ${name}" @click=${() => remove({ image: i })}></button>`;
  return markup`<section class="own" aria-label=${name} @dragover=${makeDragListener(true)}
    @dragleave=${makeDragListener(false)} @drop=${addDropped}>
    <header>
      <h3>${name}</h3>
      <small>${fillPlural(count, "{count} image", "{count} images")}</small>
      <button type="button" aria-label="Remove class ${name}" data-pick="remove ${index}"
        @click=${() => remove({})}>Remove</button>
      <label class="file add-images" title="You can also drop image files on the class."><input type="file" multiple accept=${accept}
        aria-label="Add images of ${name}" @change=${({ target }) =>
    add(takeFiles(target))}><span>Add images</span></label>
      <button type="button" class="add-images" data-pick="camera ${index}" @click=${openCamera}>${OPEN_CAMERA}</button>
    </header>
    <div class="thumbs" style=${sheet ? `--sheet: url("${sheet.url}")` : nothing}>${
    makeRange(count, drawImageButton)
  }</div>
  </section>`;
}

function createEditor(element, { upload }) {
  render(EDITOR_MARKUP, element);
  const findPart = (name) => element.querySelector("." + name);
  const showMessage = (text) => (findPart("say").textContent = text);
  const showError = (error) => render(error ? drawNotice(error) : nothing, findPart("failure"));
  function edit(what, rest = {}) {
    document.dispatchEvent(new Event(EDITED));
    store.act("own.edit", { what, ...rest }, showError);
  }
  let drawn = { classes: [] }; // the last payload
  // The images are lost when the page is closed, so the browser asks first.
  addEventListener("beforeunload", (event) => {
    if (element.isConnected && drawn.classes.some(({ count }) => count)) event.preventDefault();
  });

  // Upload the files, then edit with their paths and `rest(files)`. The request names the class, because an index
  // changes when another class is removed.
  async function send(files, what, rest = () => ({})) {
    const sent = await uploadFiles(files, upload, showMessage);
    if (sent?.paths.length) edit(what, { paths: sent.paths, ...rest(sent.files) });
  }
  const addImages = (files, name) => send(files, "images", () => ({ name }));

  // Upload a folder. The class of a file is the folder that contains it.
  function sendFolder(files) {
    const shown = listFolderFiles(files, drawn.system ?? [], MAX_FILES, showMessage);
    if (shown) send(shown, "folder", (sent) => ({ names: sent.map(getFolder) }));
  }

  const shutter = createShutter(findPart, showMessage, addImages);
  const makeListeners = (name) => ({
    add: (files) => addImages(files, name),
    remove: (fields) => edit("remove", { name, ...fields }),
    openCamera: () => shutter.open(name),
  });

  function draw(data) {
    drawn = data;
    const { accept, can_undo: canUndo, classes, message, problems } = data;
    shutter.keepClasses(classes.map(({ name }) => name));
    showMessage(message);
    render(problems.map((text) => markup`<li>${text}</li>`), findPart("problems"));
    findPart("undo").hidden = !canUndo;
    findPart("first").hidden = classes.length > 0;
    findPart("add").querySelector("button").classList.toggle("primary", classes.length < 2);
    const drawOne = (each, index) => drawClass(each, index, accept, makeListeners(each.name));
    render(classes.map(drawOne), findPart("list"));
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

store.define("custom_classes", { skeleton: "line", create: createEditor });
