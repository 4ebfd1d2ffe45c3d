// The column "Train": buttons that train, save, share and fine-tune models.
import { drawNotice, saveAs } from "../components/shared.js";
import { createProgressLine } from "../components/task_panel.js";
import { markup, nothing, render } from "../markup.js";
import * as store from "../store.js";
import { CANCEL } from "../texts.js";
import { EDITED } from "./editor.js";

const [MODELS, RESULT, TRIAL] = ["models", "result", "trial"].map((name) => `custom_classes_${name}`);
const AUDIENCE = "own.audience"; // who sees the next fine-tuned model: "me" or "all"
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

function drawQuestion(confirm, cancel) {
  return markup`<fieldset id="own-audience">
    <legend>Who may see the fine-tuned model?</legend>
    ${Object.keys(AUDIENCES).map(drawAudience)}
    <div class="buttons">${drawButton("Start fine-tuning", confirm)}${drawButton(CANCEL, cancel)}</div>
  </fieldset>`;
}

// The line of the private fine-tuning.
function drawTunedLine({ text, done, is_active: isActive, can_save: canSave }, save, discard) {
  const drawBar = () => markup`<progress max="1" aria-label="Fine-tuning" .value=${done}></progress>`;
  const end = isActive ? "Cancel fine-tuning" : "Delete the fine-tuned model";
  return markup`<div class="vd-progress"><p>${isActive ? drawBar() : nothing}<span role="status">${
    isActive ? `Fine-tuning: ${text}` : text
  }</span>${canSave ? drawButton("Save the fine-tuned model (.zip)", save) : nothing}${
    drawButton(end, discard)
  }</p></div>`;
}

function drawBeginButton({ missing, is_current: isCurrent }, train) {
  if (missing) return markup`<p class="missing">${missing}</p>`;
  const className = isCurrent ? "vd-download" : "vd-download primary";
  return drawButton("Train classifier", train, { id: "own-train", className });
}

// Arguments of `drawButton` for the buttons under "More", by field of the models' data.
const makeActions = (start, act, askWho) => ({
  can_save: ["Save the model (.zip)", () => start("save"), { id: "own-save" }],
  can_save_images: ["Save the images (.zip)", () => start("save_images"), { id: "own-save-images" }],
  can_publish: ["Publish to all users", () => act("own.publish")],
  can_unpublish: ["Unpublish", () => act("own.unpublish")],
  can_fine_tune: ["Fine-tune the whole model", askWho],
});

const drawMore = (buttons, question) =>
  markup`<details class="more" ?hidden=${!buttons.length}>
    <summary>More: save, share, fine-tune</summary>
    <div class="buttons">${buttons}</div>
    <div>${question}</div>
  </details>`;

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

  function start(task, views = []) {
    showMessage("");
    store.startTask(`own.${task}`, ({ error, ...state }) => {
      running = !state.end;
      progress.show({ ...state, error: null });
      const isUnsaved = state.cancelled && task === "train";
      const text = isUnsaved ? "Training was cancelled, so no new classifier was saved." : error;
      if (text) showMessage(text);
      if (state.data?.file) saveAs(state.data.file.url, state.data.name);
      if (state.end) views.forEach(store.invalidate);
      draw();
    });
  }

  // Ask who may see the model before the images are used. Initially, "only the user" is chosen.
  function askWho() {
    showMessage(drawn.refusal);
    if (drawn.refusal) return;
    asksWho = true;
    store.set({ [AUDIENCE]: "me" });
    draw();
    element.querySelector("#own-audience input").focus();
  }

  function startFineTuning() {
    asksWho = false;
    start("fine_tune", [MODELS]);
  }

  function cancel() {
    asksWho = false;
    draw();
    element.querySelector(".more .buttons button:last-of-type")?.focus();
  }

  const actions = makeActions(start, act, askWho);

  function draw() {
    const names = Object.keys(actions).filter((name) => drawn[name] && !running);
    const isAsked = asksWho && drawn.can_fine_tune && !running;
    const drawStop = () => drawButton(CANCEL, () => store.cancelTask(), { id: "own-stop" });
    const drawStart = () => drawBeginButton(drawn, () => start("train", [MODELS, RESULT, TRIAL]));
    const drawTuned = () =>
      drawTunedLine(drawn.tuned, () => start("save_fine_tuned"), () => act("own.discard"));
    const buttons = names.map((name) => drawButton(...actions[name]));
    render(
      markup`<div class="buttons">${running ? drawStop() : drawStart()}</div>
        ${progress.place}
        <div id="own-told">${message}</div>
        <div>${drawn.tuned ? drawTuned() : nothing}</div>
        ${drawMore(buttons, isAsked ? drawQuestion(startFineTuning, cancel) : nothing)}`,
      element,
    );
  }

  document.addEventListener(EDITED, () => showMessage(""));
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

store.define(MODELS, {
  skeleton: "line",
  pollSeconds: ({ tuned }) => (tuned?.is_active ? POLL_SECONDS : 0),
  create: createModels,
});
