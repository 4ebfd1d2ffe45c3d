// The user's own test set: upload, evaluation of all models with its classes, and a table of both accuracies.
import { createDocument } from "../../components/documents.js";
import { drawActionButton, drawNotice } from "../../components/shared.js";
import { createProgressLine } from "../../components/task_panel.js";
import { getFolder, listFolderFiles, takeFiles, uploadFiles } from "../../components/uploads.js";
import { markup, nothing, render } from "../../markup.js";
import * as store from "../../store.js";
import { SAME_MODEL } from "../../generated.js";
import { CANCEL, fillPlural } from "../../texts.js";

const TESTS = "results.tests";
const ACCURACIES = "Accuracy of all models on both test sets";
const MAX_FILES = 1000; // per folder; the server has the same limit

// With a user's test set, compare the chosen model on both test sets; the user may choose another comparison.
store.watch([TESTS], (state, changes) => {
  if ("results.other" in changes) return; // from the URL, or chosen together with the test set
  const other = state[TESTS] ? SAME_MODEL : "";
  store.updateControls({ "results.other": { value: other } });
});

// The form that adds a test set; `sendFolder` and `sendZip` are called with the chosen files.
function drawForm(isLocal, sendFolder, sendZip) {
  const makeListener = (send) => ({ target }) => send(takeFiles(target));
  return markup`<details class="add"><summary>Test the models on your own images</summary>
      <p>Use a folder or a zip file with one folder of images per class. Use class names of the models as folder names, for example cat and dog. ${
    isLocal
      ? "The images stay in memory until this page is stopped."
      : "Only you can see your images, and they are deleted one hour after their last use."
  }</p>
      <div class="ways">
        <input type="text" class="name" maxlength="40" autocomplete="off" placeholder="for example Group 2"
          aria-label="Name of the test set">
        <label class="file"><input type="file" class="folder" webkitdirectory multiple
          @change=${makeListener(sendFolder)}><span>Add folder</span></label>
        <label class="file"><input type="file" class="zip" accept=".zip"
          @change=${makeListener(sendZip)}><span>Add zip</span></label>
      </div>
    </details>`;
}

// The chosen test set, with the `table` of accuracies.
const drawChosen = ({ name, summary, problems, comparison }, table, buttons) =>
  markup`<h2>${name}</h2>
      <span class="quiet">${summary}</span>
      ${problems.map((text) => markup`<p class="quiet">${text}</p>`)}
      <details class="accuracies" ?hidden=${!comparison.length}>
        <summary>${ACCURACIES}</summary>${table}
      </details>
      <div class="buttons">${buttons}</div>`;

function createTestSet(element, { upload }) {
  const progress = createProgressLine("images");
  const table = document.createElement("div");
  Object.assign(table, { className: "article", tabIndex: 0, role: "region", ariaLabel: ACCURACIES });
  const drawTable = createDocument(table);
  let drawn = null; // the last payload
  let running = false; // whether the evaluation runs
  let message = nothing; // message about the last upload or evaluation

  function showMessage(text) {
    message = text ? drawNotice(text) : nothing;
    draw();
  }

  function evaluate() {
    showMessage("");
    store.startTask("tests.evaluate", ({ error, ...state }) => {
      running = !state.end;
      progress.show({ ...state, error: null });
      if (state.end) element.querySelector(".accuracies").open = true;
      if (state.end) store.invalidateViewsOf(TESTS);
      showMessage(
        state.cancelled
          ? "The evaluation was cancelled, but the results of finished models are kept."
          : error,
      );
    }, [TESTS]);
  }

  function add(fields) {
    const name = element.querySelector(".name").value;
    store.act("tests.add", { name, ...fields }, (error) => {
      if (error) return showMessage(error);
      element.querySelector("details.add").open = false;
      evaluate();
    });
  }

  async function sendZip(files) {
    const sent = await uploadFiles(files, upload, showMessage);
    if (sent?.paths.length) add({ paths: sent.paths });
  }

  async function sendFolder(files) {
    const shown = listFolderFiles(files, drawn.system, MAX_FILES, showMessage);
    const sent = shown && await uploadFiles(shown, upload, showMessage);
    if (sent?.paths.length) add({ paths: sent.paths, folders: sent.files.map(getFolder) });
  }

  const drawEvaluateButton = () =>
    markup`<button type="button" class="vd-download primary" id="tests-evaluate" @click=${evaluate}>${
      fillPlural(drawn.pending, "Evaluate {count} model", "Evaluate {count} models")
    }</button>`;
  const drawCancelButton = () => drawActionButton(CANCEL, () => store.stopTask(), "tests-cancel");
  const remove = () => store.act("tests.remove", {}, showMessage);

  const drawButtons = () => [
    drawn.pending && !running ? drawEvaluateButton() : nothing,
    running ? drawCancelButton() : drawActionButton("Remove this test set", remove, "tests-remove"),
  ];

  function draw() {
    if (!drawn) return;
    render(
      markup`${drawForm(drawn.is_local, sendFolder, sendZip)}${
        drawn.name ? drawChosen(drawn, table, drawButtons()) : nothing
      }${progress.place}<div role="status">${message}</div>`,
      element,
    );
    drawTable(drawn.comparison);
  }

  return {
    render(data) {
      drawn = data;
      draw();
    },
    showError: showMessage,
  };
}

store.define("test_set", { create: createTestSet });
