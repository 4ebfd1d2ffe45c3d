// Panel with the chosen lesson, next to all tabs. The lesson and its step are the state keys `lesson` and `step`. Steps
// count from 1; the step after the last one is the end of the lesson. The user completes tasks by clicks and changes
// anywhere on the page; nothing about them is sent to the server.
import { drawMarkdown, drawNotice } from "../../components/shared.js";
import { markup, nothing, render as renderInto } from "../../markup.js";
import * as store from "../../store.js";
import { fillPlural } from "../../texts.js";
import * as lessonProgress from "../progress.js";
import { begin, leave } from "../progress.js";
import { askQuestion } from "./questions.js";
import * as spotlight from "./spotlight.js";
import * as stage from "./stage.js";
import { watchTasks } from "./tasks.js";

const NEXT_TEXT = "Next";
const SKIP_TEXT = "Skip";
const SHOW_ALL = "Show all lessons";
const MARKUP = markup`
  <aside class="lesson" aria-label="Lesson">
    <header>
      <b class="name"></b>
      <span class="count"></span>
      <button type="button" class="leave">Exit lesson</button>
    </header>
    <div class="bar"><i></i></div>
    <div class="body">
      <h2 class="title" tabindex="-1"></h2>
      <div class="text"></div>
      <p class="do"></p>
      <form class="question"></form>
      <div class="told" role="status"></div>
    </div>
    <footer>
      <button type="button" class="back">Back</button>
      <button type="button" class="show">Show me</button>
      <button type="button" class="on">${NEXT_TEXT}</button>
    </footer>
  </aside>
`;
// The page has one panel, outside the tabs. Listeners of the document need its state, which therefore belongs to the module.
let place = null; // the element of the view
let content = null; // the data of the chosen lesson, once they have arrived
let drawn = 0; // the step that is drawn, 0: none

const findPart = (name) => place.querySelector("." + name);
const isOpen = () => content !== null && drawn > 0;
const getCurrentStep = () => content?.lesson.steps[drawn - 1]; // undefined at the end
const getSavedStep = () => drawn - 1; // progress.js counts from 0
const readProgress = () => lessonProgress.read(content.lesson.name);
const isDone = () => readProgress().done.includes(getSavedStep());

// --- navigation ---

const goTo = (step) => store.set({ step });
const goBack = () => goTo(Math.max(drawn - 1, 1));

function goOn() {
  if (getCurrentStep()) return goTo(drawn + 1);
  const { next } = content;
  return next ? begin(next.name, lessonProgress.read(next.name).step + 1) : showAll();
}

function showAll() {
  leave();
  store.open("?tab=lessons");
}

function exit() {
  leave();
  document.querySelector("#tabs [role=tab][aria-selected=true]")?.focus({ preventScroll: true });
}

// The view of a step, or of an earlier step if the step has no view.
const findView = (step) => content.lesson.steps.slice(0, step).findLast(({ opens }) => opens)?.opens;

// In Teach mode, only the parts of the step are shown; the last step's parts remain at the end of the lesson.
const setStage = () => stage.set(content?.lesson.steps ?? [], store.state.teach ? drawn : 0);

// --- drawing ---

// Show the panel without content, or hide it if no lesson is chosen.
function clear({ lesson }) {
  content = null;
  drawn = 0;
  spotlight.clear();
  setStage();
  document.body.classList.toggle("vd-lesson", lesson !== "");
  if (!place) return;
  place.hidden = !lesson;
  drawMessage("Loading the lesson …");
}

const drawParagraphs = (words) => words.map((text) => markup`<p>${drawMarkdown(text)}</p>`);

function drawMessage(title, message = nothing) {
  place.firstElementChild.classList.add("empty");
  findPart("title").textContent = title;
  renderInto(message, findPart("text"));
  for (const name of ["name", "count"]) findPart(name).textContent = "";
  for (const name of ["do", "question", "told"]) renderInto(nothing, findPart(name));
}

function showError(message) {
  content = null;
  drawn = 0;
  drawMessage("This lesson cannot be opened", drawNotice(message));
}

function render(data, state) {
  if (data.lesson.name !== state.lesson) return; // data of the previous lesson
  content = data;
  const step = Math.min(Math.max(state.step, 1), data.lesson.steps.length + 1);
  if (step === drawn) return;
  const isNext = drawn > 0 && step === drawn + 1;
  drawn = step;
  place.firstElementChild.classList.remove("empty");
  findPart("name").textContent = data.lesson.title;
  for (const name of ["do", "question", "told"]) renderInto(nothing, findPart(name));
  spotlight.clear();
  setStage();
  forget();
  if (getCurrentStep()) drawStep(getCurrentStep());
  else drawEnd();
  findPart("body").scrollTop = 0;
  findPart("title").focus({ preventScroll: true });
  // Called later, since the store may be drawing other views.
  queueMicrotask(() => openView(step, isNext));
}

function openView(step, isNext) {
  store.set({ step });
  const view = isNext ? getCurrentStep()?.opens : findView(step);
  if (view && getCurrentStep()) store.open(view);
}

function drawStep({ cover, question, ring, task, text, title }) {
  const { length } = content.lesson.steps;
  findPart("count").textContent = `${drawn} of ${length}`;
  findPart("bar").firstElementChild.style.width = `${(100 * drawn) / length}%`;
  findPart("title").textContent = title;
  const note = markup`<p><small>Part of the page is hidden until the next question.</small></p>`;
  renderInto(markup`${drawParagraphs(text)}${cover && !question ? note : nothing}`, findPart("text"));
  findPart("show").hidden = !ring;
  findPart("back").disabled = drawn === 1;
  spotlight.seek(ring, ["press", "set", "choose"].includes(task?.kind) ? task.where : "");
  save(!task && !question);
  drawTask();
  if (question) {
    askQuestion(findPart("question"), question, {
      covered: cover,
      given: isDone() ? readProgress().answers[getSavedStep()] : undefined,
      takeAnswer,
    });
  }
  if (isDone() && task?.because) showMessage([task.because]);
}

// Draw whether the task or question of the step is done.
function drawTask() {
  const { cover, do: words, question, ring, task } = getCurrentStep();
  const done = Boolean(task || question) && isDone();
  findPart("do").classList.toggle("done", done);
  const drawInstruction = () => markup`<b>${done ? "✓ Done: " : "Try it: "}</b>${drawMarkdown(words)}`;
  renderInto(words ? drawInstruction() : nothing, findPart("do"));
  const isLast = drawn === content.lesson.steps.length;
  findPart("on").textContent = isLast ? "Finish" : done || !(task || question) ? NEXT_TEXT : SKIP_TEXT;
  findPart("on").classList.toggle("ready", findPart("on").textContent !== SKIP_TEXT);
  spotlight.mark({ ring, cover: question && done ? "" : cover });
}

// Draw the result of the lesson, and a button for the next lesson.
function drawEnd() {
  const { lesson: { goal, steps }, next } = content;
  const { done, right } = readProgress();
  const asked = steps.filter(({ question }) => question && !question.free).length;
  const tasks = steps.filter(({ task }) => task).length;
  const did = steps.filter(({ task }, i) => task && done.includes(i)).length;
  const reached = [
    tasks
      ? fillPlural(tasks, "{done} of {count} task done", "{done} of {count} tasks done", { done: did })
      : "",
    asked
      ? fillPlural(
        asked,
        "{right} of {count} question answered correctly at the first try",
        "{right} of {count} questions answered correctly at the first try",
        { right: Object.values(right).filter(Boolean).length },
      )
      : "",
  ].filter(Boolean);
  findPart("title").textContent = "End of the lesson";
  findPart("count").textContent = "";
  const drawFollowing = () =>
    markup`${drawParagraphs([`The next lesson is **${next.title}**.`])}<button type="button"
      @click=${showAll}>${SHOW_ALL}</button>`;
  renderInto(
    markup`<p>Goal of this lesson: ${drawMarkdown(goal)}</p><p>${
      reached.length ? `${reached.join(", ")}.` : ""
    }</p>${next ? drawFollowing() : nothing}`,
    findPart("text"),
  );
  findPart("back").disabled = false;
  findPart("show").hidden = true;
  findPart("on").textContent = next ? "Next lesson" : SHOW_ALL;
  findPart("on").classList.add("ready");
}

function showMessage(words) {
  renderInto(drawParagraphs(words.filter(Boolean)), findPart("told"));
  findPart("told").scrollIntoView({ block: "nearest" });
}

// --- tasks and questions ---

// Save the current step, and that it is done.
function save(isFinished, changes = {}) {
  const { done } = readProgress();
  const all = isFinished && !isDone() ? [...done, getSavedStep()] : done;
  lessonProgress.write(content.lesson.name, { ...changes, step: getSavedStep(), done: all });
}

function complete(changes) {
  save(true, changes);
  drawTask();
  if (getCurrentStep().then) spotlight.seek(getCurrentStep().then);
}

const { forget } = watchTasks(
  () => (isOpen() && getCurrentStep() && !isDone() ? getCurrentStep().task : null),
  () => {
    complete();
    const { because } = getCurrentStep().task;
    if (because) showMessage([because]);
  },
);

// Save the answer, so that Back shows it; only the first answer counts for the score.
function takeAnswer({ missing, given, right, answer }) {
  if (missing) return showMessage([missing]);
  const before = readProgress();
  const counts = right !== null && !(getSavedStep() in before.right);
  complete({
    answers: { ...before.answers, [getSavedStep()]: given },
    right: counts ? { ...before.right, [getSavedStep()]: right } : before.right,
  });
  showMessage([
    `${right === null ? "**Sample answer:**" : right ? "**Correct.**" : "**Not quite.**"} ${answer}`,
    getCurrentStep().question.because,
  ]);
}

function show() {
  if (spotlight.show(getCurrentStep().ring)) return;
  showMessage(["The view of this step was closed, and is being opened again."]);
  store.open(findView(drawn) ?? "");
}

// --- events ---

function create(element) {
  place = element;
  renderInto(MARKUP, element);
  for (const [name, listen] of Object.entries({ back: goBack, leave: exit, on: goOn, show })) {
    findPart(name).addEventListener("click", listen);
  }
  clear(store.state);
  return { render, showError };
}

document.addEventListener("click", ({ target }) => {
  if (!place?.contains(target)) spotlight.brighten();
}, true);

// In Teach mode, keys of a presenter's remote change the step. PageUp and PageDown always change it, and the arrow keys
// unless an element needs them. A clicked map or button has the focus, but receives keys only after the Tab key. A
// clicked field receives the arrow keys until the step is done.
const isField = (target) => target.matches("input, select, textarea, [contenteditable], [role=slider]");
const PAGES = { PageDown: goOn, PageUp: goBack };
const MOVES = { ArrowRight: goOn, ArrowLeft: goBack, ...PAGES };
let isPointerFocus = true; // whether the focus comes from the pointer, on the whole page
document.addEventListener("pointerdown", () => (isPointerFocus = true), true);

document.addEventListener("keydown", (event) => {
  const { target, key } = event;
  if (key === "Tab") isPointerFocus = false;
  if (!isOpen()) return;
  if (key !== "Tab") spotlight.brighten();
  if (!store.state.teach || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
  const isTitle = target === document.body || target === findPart("title");
  const isFree = isTitle || (isPointerFocus && (isDone() || !isField(target)));
  const move = isTitle && key === " " ? goOn : (isFree ? MOVES : PAGES)[key];
  if (!move) return;
  event.preventDefault();
  event.stopPropagation();
  move();
}, true);
store.watch(["lesson"], clear);
store.watch(["teach"], ({ teach }) => {
  document.documentElement.classList.toggle("vd-teach", teach === "1");
  setStage();
});
store.define("lesson_panel", { follows: ["lesson", "step"], create });
