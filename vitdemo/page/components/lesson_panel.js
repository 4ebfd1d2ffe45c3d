// Shows a lesson step by step next to the page. Tasks are completed by the user's clicks and changes
// anywhere on the page; nothing about them is sent to the server.
const { askQuestion, make, marked, received, store, watchTasks } = vitdemo;
const part = (name) => element.querySelector("." + name);
const panel = part("lesson");
// Key in localStorage; the value maps each lesson to {step, steps, done: [step numbers], answers:
// {step number: answer}, right: {step number: whether the first answer was correct}}.
const KEPT = "vitdemo-lessons";
const SEEK = 8000; // milliseconds that the parts of a view may need to appear
for (const name of ["lesson", "step", "teach"]) store.defineParam(name, { isKept: true }); // kept in every view
const teaches = new URLSearchParams(window.location.search).get("teach") === "1";
let lesson = null;
let at = 0; // current step, from 0
let done = false; // whether the current step is completed
let waiting = null; // lesson to start once the lessons have been received
let seeking = 0; // time until which `sought` is scrolled into view
let sought = ""; // CSS selector
let closing = false; // true after the last step

// --- saved progress ---

function kept() {
  try {
    return JSON.parse(localStorage.getItem(KEPT)) ?? {};
  } catch {
    return {}; // nothing saved, or localStorage is blocked
  }
}

const mine = () => ({ done: [], answers: {}, right: {}, ...kept()[lesson.name] });

function write(changes) {
  try {
    localStorage.setItem(KEPT, JSON.stringify({ ...kept(), [lesson.name]: { ...mine(), step: at, steps: lesson.steps.length, ...changes } }));
  } catch {
    // Without localStorage, the lesson works but is not saved.
  }
  document.dispatchEvent(new CustomEvent("vitdemo:progress"));
}

function keep(finished) {
  const known = mine().done;
  write({ done: finished && !known.includes(at) ? [...known, at] : known });
}

// --- the view of a step ---

const viewOf = (number) => lesson.steps.slice(0, number + 1).findLast((step) => step.opens)?.opens;

const { open } = store;

// Outline the element that the step points at, and hide elements that would reveal the answer.
const marks = document.head.appendChild(document.createElement("style"));
function mark({ ring, cover, question }) {
  marks.textContent = ring ? `${ring} { outline: 3px solid #f59e0b; outline-offset: 2px; border-radius: 6px; }` : "";
  if (cover && !(question && done)) marks.textContent += ` ${cover}, ${cover} * { visibility: hidden !important; }`;
}

const seen = (selector) => (selector ? [...document.querySelectorAll(selector)].find((each) => each.getClientRects().length) : null);

function seek(selector) {
  sought = selector;
  seeking = Date.now() + SEEK;
}

// Scroll an element into the part of the window that the panel does not cover.
function reveal(found) {
  const beside = panel.getBoundingClientRect();
  const free = beside.width < window.innerWidth ? window.innerHeight : beside.top;
  const { top, bottom, height } = found.getBoundingClientRect();
  if (top >= 0 && (bottom <= free || (top < free / 2 && height > free))) return; // it is visible already
  // Scroll as little as necessary, so that the context above it stays visible.
  window.scrollBy({ top: top < 0 || height > free - 40 ? top - 20 : bottom - free + 20 });
}

// Darken everything except the element that the step points at, until the next click or key press.
let dim = null;
function bright() {
  dim?.remove();
  dim = null;
}
function show() {
  bright();
  const found = seen(lesson.steps[at].ring);
  if (!found) return tell(["The view of this step was not open. It is being opened again."], () => open(viewOf(at) ?? ""));
  reveal(found);
  requestAnimationFrame(() => {
    const box = found.getBoundingClientRect();
    dim = document.body.appendChild(make("div", { className: "vd-dim", style: `left: ${box.left - 4}px; top: ${box.top - 4}px; width: ${box.width + 8}px; height: ${box.height + 8}px` }));
  });
}

// --- tasks and questions ---

const current = () => (panel.hidden || closing || done ? null : lesson?.steps[at].task);
const { forget } = watchTasks(current, finish);

function finish() {
  const { task, then } = lesson.steps[at];
  done = true;
  keep(true);
  draw();
  if (task.because) tell([task.because]);
  if (then) seek(then);
}

document.addEventListener("click", ({ target }) => !panel.contains(target) && bright(), true);
let held = false; // a pressed button or finger, during which the page must not scroll
for (const kind of ["wheel", "touchmove", "pointerdown", "keydown"]) document.addEventListener(kind, ({ key }) => {
  if (key !== "Enter") seeking = 0; // the user scrolls now; Enter does not count, since it may have started this step
}, { capture: true, passive: true });
for (const [kind, is] of [["pointerdown", true], ["pointerup", false], ["pointercancel", false]]) document.addEventListener(kind, () => (held = is), { capture: true, passive: true });
setInterval(() => {
  const found = !panel.hidden && !held && Date.now() < seeking && seen(sought);
  if (found) reveal(found);
}, 300);

function tell(paragraphs, action) {
  part("told").replaceChildren(...paragraphs.filter(Boolean).map((text) => make("p", {}, ...marked(text))));
  action?.();
  part("told").scrollIntoView({ block: "nearest" });
}

// Save the answer, so that Back shows it; only the first answer counts for the score.
function answered({ missing, given, right, answer }) {
  if (missing) return tell([missing]);
  const { answers, right: first } = mine();
  const step = lesson.steps[at];
  done = true;
  keep(true);
  write({ answers: { ...answers, [at]: given }, right: right === null || at in first ? first : { ...first, [at]: right } });
  mark(step);
  if (step.then) seek(step.then);
  buttons();
  const head = right === null ? "**Sample answer:**" : right ? "**Correct.**" : "**Not quite.**";
  tell([`${head} ${answer}`, step.question.because]);
}

// --- drawing ---

function buttons() {
  const step = lesson.steps[at];
  const last = at === lesson.steps.length - 1;
  part("back").disabled = at === 0;
  part("show").hidden = !step.ring;
  part("on").textContent = last ? "Finish" : done || !(step.task || step.question) ? "Next" : "Skip";
  part("on").classList.toggle("ready", part("on").textContent !== "Skip");
}

function draw() {
  const step = lesson.steps[at];
  part("name").textContent = lesson.title;
  part("count").textContent = `${at + 1} of ${lesson.steps.length}`;
  part("bar").firstElementChild.style.width = `${(100 * (at + 1)) / lesson.steps.length}%`;
  part("title").textContent = step.title;
  part("text").replaceChildren(...step.text.map((text) => make("p", {}, ...marked(text))));
  part("do").classList.toggle("done", done);
  part("do").replaceChildren(...(step.do ? [make("b", { text: done ? "✓ Done: " : "Try it: " }), ...marked(step.do)] : []));
  buttons();
}

function go(number, { fresh = false } = {}) {
  const before = closing ? -1 : at;
  closing = false;
  at = Math.min(Math.max(number, 0), lesson.steps.length - 1);
  const step = lesson.steps[at];
  const { done: finished, answers } = mine();
  done = Boolean(step.task || step.question) && finished.includes(at);
  seek(step.ring);
  forget();
  bright();
  store.set({ lesson: lesson.name, step: String(at + 1) });
  const view = !fresh && at === before + 1 ? step.opens : viewOf(at);
  if (view) open(view);
  mark(step);
  document.body.classList.toggle("vd-picture", Boolean(step.ring && document.querySelector(step.ring)?.closest("#look-at")));
  part("told").replaceChildren();
  part("question").replaceChildren();
  if (step.question) {
    const given = done ? answers[at] : undefined;
    askQuestion(part("question"), step.question, { covered: step.cover, given, answered });
  }
  if (done && step.task?.because) tell([step.task.because]);
  keep(!step.task && !step.question);
  draw();
  part("body").scrollTop = 0;
  part("title").focus({ preventScroll: true });
}

// Show the result of the lesson, and a button for the next one.
function close() {
  const { steps, goal } = lesson;
  const { done: finished, right } = mine();
  const asked = steps.filter(({ question }) => question && !question.free).length;
  const tasks = steps.filter(({ task }) => task).length;
  const did = steps.filter(({ task }, i) => task && finished.includes(i)).length;
  const reached = [
    tasks ? `${did} of ${tasks} tasks done` : "",
    asked ? `${Object.values(right).filter(Boolean).length} of ${asked} questions answered correctly at the first try` : "",
  ].filter(Boolean);
  const { lessons } = received(props);
  const next = lessons[lessons.findIndex(({ name }) => name === lesson.name) + 1];
  closing = true;
  mark({});
  part("title").textContent = "End of the lesson";
  part("count").textContent = "";
  part("text").replaceChildren(make("p", {}, "Goal of this lesson: ", ...marked(goal)), make("p", { text: reached.length ? `${reached.join(", ")}.` : "" }));
  for (const name of ["do", "question", "told"]) part(name).replaceChildren();
  if (next) {
    const button = make("button", { type: "button", text: `Next lesson: ${next.title}` });
    button.addEventListener("click", () => begin({ name: next.name, step: kept()[next.name]?.step ?? 0 }));
    part("text").append(button);
  }
  part("show").hidden = true;
  part("on").textContent = "Show all lessons";
  part("title").focus({ preventScroll: true });
}

// Start a lesson; `anew` deletes the saved answers first.
function begin({ name, step, anew = false }) {
  const found = received(props)?.lessons?.find((each) => each.name === name);
  if (!found) return;
  lesson = found;
  if (anew) write({ done: [], answers: {}, right: {} });
  panel.hidden = false;
  document.body.classList.add("vd-lesson");
  go(step, { fresh: true });
}

function leave() {
  panel.hidden = true;
  document.body.classList.remove("vd-lesson");
  mark({});
  bright();
  store.set({ lesson: "", step: "" });
  document.querySelector("#tabs [role=tab][aria-selected=true]")?.focus({ preventScroll: true });
}

function on() {
  if (!closing) return at < lesson.steps.length - 1 ? go(at + 1) : close();
  leave();
  open("?tab=lessons");
}

const back = () => go(closing ? at : at - 1);
part("back").addEventListener("click", back);
part("on").addEventListener("click", on);
part("show").addEventListener("click", show);
part("leave").addEventListener("click", leave);
document.addEventListener("keydown", (event) => {
  if (panel.hidden) return;
  if (event.key !== "Tab") bright();
  const free = event.target === document.body || event.target === part("title");
  if (!teaches || !free || event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === "ArrowRight" || event.key === " ") on();
  else if (event.key === "ArrowLeft") back();
  else return;
  event.preventDefault();
});
document.documentElement.classList.toggle("vd-teach", teaches);
document.addEventListener("vitdemo:started", () => store.state.lesson && trigger("want"));
document.addEventListener("vitdemo:lesson", ({ detail }) => {
  if (received(props)?.lessons) return begin(detail);
  waiting = detail;
  trigger("want");
});
watch("value", () => {
  const wished = waiting ?? { name: store.state.lesson, step: Number(store.state.step || 1) - 1 || 0 };
  waiting = null;
  if (panel.hidden) begin(wished);
});
