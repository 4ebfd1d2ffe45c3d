// A lesson, step by step, beside the page. A task is done by the person's own click or change,
// wherever on the page it is; nothing of it is sent to the server.
const { address, askQuestion, make, marked, received, visit, watchTasks } = vitdemo;
const part = (name) => element.querySelector("." + name);
const panel = part("lesson");
// In the browser, by lesson: {step, steps, done: [numbers], answers: {number: what was given}, right:
// {number: whether the first answer was}}
const KEPT = "vitdemo-lessons";
const SEEK = 8000; // milliseconds: a view is drawn in parts
const OWN = ["lesson", "step", "teach"]; // of the address, whatever view is open
const teaches = new URLSearchParams(window.location.search).get("teach") === "1";
let lesson = null;
let at = 0; // the step, from 0
let done = false; // of the step
let waiting = null; // what is to begin when the lessons are here
let seeking = 0; // until when `sought` is brought into the window
let sought = ""; // a selector
let closing = false; // behind the last step

// --- what is kept ---

function kept() {
  try {
    return JSON.parse(localStorage.getItem(KEPT)) ?? {};
  } catch {
    return {}; // none, or a browser that keeps nothing
  }
}

const mine = () => ({ done: [], answers: {}, right: {}, ...kept()[lesson.name] });

function write(changes) {
  try {
    localStorage.setItem(KEPT, JSON.stringify({ ...kept(), [lesson.name]: { ...mine(), step: at, steps: lesson.steps.length, ...changes } }));
  } catch {
    // It runs all the same.
  }
  document.dispatchEvent(new CustomEvent("vitdemo:progress"));
}

function keep(finished) {
  const known = mine().done;
  write({ done: finished && !known.includes(at) ? [...known, at] : known });
}

// --- the view that a step speaks of ---

const viewOf = (number) => lesson.steps.slice(0, number + 1).findLast((step) => step.opens)?.opens;

function open(view) {
  const query = new URLSearchParams(view);
  const now = new URLSearchParams(window.location.search);
  for (const name of OWN) if (now.has(name)) query.set(name, now.get(name));
  visit("?" + query.toString().replaceAll("%3A", ":").replaceAll("%2C", ","));
  if (!["look", null].includes(query.get("tab"))) return;
  trigger("visit");
}

// A ring around what the step points at; what would tell an answer is not shown before it is given.
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

// Bring what the step points at into the part of the window that the panel leaves free.
function reveal(found) {
  const beside = panel.getBoundingClientRect();
  const free = beside.width < window.innerWidth ? window.innerHeight : beside.top;
  const { top, bottom, height } = found.getBoundingClientRect();
  if (top >= 0 && (bottom <= free || (top < free / 2 && height > free))) return; // it is, or begins well
  // No further than it must: what stands above it belongs to it.
  window.scrollBy({ top: top < 0 || height > free - 40 ? top - 20 : bottom - free + 20 });
}

// All but what the step points at darkens, until the next click or key.
let dim = null;
function bright() {
  dim?.remove();
  dim = null;
}
function show() {
  bright();
  const found = seen(lesson.steps[at].ring);
  if (!found) return tell(["What this step points at is not to be seen now: its view is opened again."], () => open(viewOf(at) ?? ""));
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
let held = false; // a button or a finger: nothing is to move under it
for (const kind of ["wheel", "touchmove", "pointerdown", "keydown"]) document.addEventListener(kind, ({ key }) => {
  if (key !== "Enter") seeking = 0; // who moves on has seen it; Enter is what began it
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

// What was `given` is kept, so that Back shows it; of several answers the first one counts.
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
  const head = right === null ? "**One answer:**" : right ? "**Right.**" : "**Not quite.**";
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
  address({ lesson: lesson.name, step: at + 1 });
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

// What was reached, and the way on.
function close() {
  const { steps, goal } = lesson;
  const { done: finished, right } = mine();
  const asked = steps.filter(({ question }) => question && !question.free).length;
  const tasks = steps.filter(({ task }) => task).length;
  const did = steps.filter(({ task }, i) => task && finished.includes(i)).length;
  const reached = [
    tasks ? `${did} of ${tasks} tasks done` : "",
    asked ? `${Object.values(right).filter(Boolean).length} of ${asked} questions right at the first answer` : "",
  ].filter(Boolean);
  const { lessons } = received(props);
  const next = lessons[lessons.findIndex(({ name }) => name === lesson.name) + 1];
  closing = true;
  mark({});
  part("title").textContent = "The end of this lesson";
  part("count").textContent = "";
  part("text").replaceChildren(make("p", {}, "The goal was: ", ...marked(goal)), make("p", { text: reached.length ? `${reached.join(", ")}.` : "" }));
  for (const name of ["do", "question", "told"]) part(name).replaceChildren();
  if (next) {
    const button = make("button", { type: "button", text: `Next lesson: ${next.title}` });
    button.addEventListener("click", () => begin({ name: next.name, step: kept()[next.name]?.step ?? 0 }));
    part("text").append(button);
  }
  part("show").hidden = true;
  part("on").textContent = "To the lessons";
  part("title").focus({ preventScroll: true });
}

// `anew`: nothing is kept of the time before, so that guesses are guesses again.
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
  address({ lesson: null, step: null });
  document.querySelector("#tabs [role=tab][aria-selected=true]")?.focus({ preventScroll: true });
}

function on() {
  if (!closing) return at < lesson.steps.length - 1 ? go(at + 1) : close();
  leave();
  visit("?tab=lessons" + (teaches ? "&teach=1" : ""));
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
document.addEventListener("vitdemo:lesson", ({ detail }) => {
  if (received(props)?.lessons) return begin(detail);
  waiting = detail;
  trigger("want");
});
watch("value", () => {
  const query = new URLSearchParams(window.location.search);
  const wished = waiting ?? { name: query.get("lesson"), step: Number(query.get("step") ?? 1) - 1 || 0 };
  waiting = null;
  if (panel.hidden) begin(wished);
});
