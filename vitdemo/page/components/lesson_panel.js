// A lesson, step by step, beside the page. A task is done by the person's own click or change, which
// this script recognises wherever on the page it is; nothing of it is sent to the server.
const { address, make, marked, visit } = vitdemo;
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

// --- tasks ---

const numeric = { ">=": (a, b) => a >= b, "<=": (a, b) => a <= b, "=": (a, b) => a === b };
const inside = (target, where) => target instanceof Element && target.closest(where);
const current = () => (panel.hidden || closing || done ? null : lesson?.steps[at].task);

function finish() {
  const { task, then } = lesson.steps[at];
  done = true;
  keep(true);
  draw();
  if (task.because) tell([task.because]);
  if (then) seek(then);
}

document.addEventListener("click", (event) => {
  if (!panel.contains(event.target)) bright();
  const task = current();
  if (task?.kind === "press" && inside(event.target, task.where)) finish();
  if (task?.kind === "choose" && inside(event.target, task.where)) {
    const words = event.target.closest("label")?.textContent.trim(); // of a radio button
    if (words && (!task.value || words === task.value)) finish();
  }
}, true);
// A list of gradio's is no select: it is chosen from when it is closed again with another value.
const LIST = "input[role=combobox]";
let opened = null; // {list, value} before a person touched it
for (const kind of ["pointerdown", "keydown"]) document.addEventListener(kind, ({ target }) => {
  const list = current()?.kind === "choose" && inside(target, current().where)?.querySelector(LIST);
  if (list && opened?.list !== list) opened = { list, value: list.value };
}, true);
function chosenFrom({ where, value }) {
  const list = document.querySelector(`${where} ${LIST}`);
  if (!list || opened?.list !== list || list.getAttribute("aria-expanded") === "true") return false;
  return list.value !== opened.value && (!value || list.value === value);
}
function changed(event) {
  const task = current();
  if (!task || !inside(event.target, task.where || "*") || event.target.matches(LIST)) return;
  if (task.kind === "set" && numeric[task.op](Number(event.target.value), Number(task.value))) finish();
  const chosen = event.target.selectedOptions?.[0]?.textContent.trim() ?? event.target.value;
  if (task.kind === "choose" && (!task.value || [chosen, event.target.value].includes(task.value))) finish();
}
for (const kind of ["input", "change"]) document.addEventListener(kind, changed, true);
let held = false; // a button or a finger: nothing is to move under it
for (const kind of ["wheel", "touchmove", "pointerdown", "keydown"]) document.addEventListener(kind, ({ key }) => {
  if (key !== "Enter") seeking = 0; // who moves on has seen it; Enter is what began it
}, { capture: true, passive: true });
for (const [kind, is] of [["pointerdown", true], ["pointerup", false], ["pointercancel", false]]) document.addEventListener(kind, () => (held = is), { capture: true, passive: true });
document.addEventListener("vitdemo:drawn", ({ detail }) => {
  const isPatch = /^\d+,\d+$/.test(detail.token);
  if (current()?.kind === "point" && isPatch) finish();
});
// What an answer of the server brings, or the address says.
setInterval(() => {
  const task = current();
  if (!panel.hidden && !held && Date.now() < seeking) {
    const found = seen(sought);
    if (found) reveal(found);
  }
  if (task?.kind === "choose" && chosenFrom(task)) finish();
  if (task?.kind === "see" && new URLSearchParams(window.location.search).get(task.where) === task.value) finish();
  if (task?.kind === "shown" && [...document.querySelectorAll(task.where)].some((each) => each.offsetParent)) finish();
}, 300);

// --- questions ---

function tell(paragraphs, action) {
  part("told").replaceChildren(...paragraphs.filter(Boolean).map((text) => make("p", {}, ...marked(text))));
  action?.();
  part("told").scrollIntoView({ block: "nearest" });
}

function words(question) {
  const notes = [];
  if (lesson.steps[at].cover) notes.push("What would tell it is covered until you answer.");
  if (Number(question.tolerance)) notes.push(`Within ${question.tolerance} counts as right; a loss has a minus.`);
  return [make("p", {}, ...marked(question.words)), notes.length ? make("small", { text: notes.join(" ") }) : null].filter(Boolean);
}

const number = (text) => Number(text.trim().replace("−", "-").replace(",", ".").replace(/\s*%$/, ""));

function ask(question, given) {
  const form = part("question");
  const check = make("button", { type: "submit", text: question.free ? "Compare" : "Check" });
  let field;
  if (question.choices.length) {
    field = make("div", { role: "radiogroup", "aria-label": question.words }, ...question.choices.map((text, i) =>
      make("label", {}, make("input", { type: "radio", name: "answer", value: i }), make("span", {}, ...marked(text)))));
  } else if (question.free) field = make("textarea", { rows: 3, "aria-label": question.words });
  else field = make("input", { type: "text", inputMode: "decimal", "aria-label": question.words });
  form.replaceChildren(...words(question), field, check);
  form.onsubmit = (event) => {
    event.preventDefault();
    judge(question, field);
  };
  if (given === undefined) return;
  if (question.choices.length) field.querySelectorAll("input")[given]?.click();
  else field.value = given;
  judge(question, field);
}

function judge(question, field) {
  if (question.choices.length) {
    const chosen = [...field.querySelectorAll("input")].findIndex((each) => each.checked);
    if (chosen < 0) return tell(["Choose one first."]);
    field.querySelectorAll("label").forEach((label, i) => {
      label.classList.toggle("right", i === question.right);
      label.classList.toggle("wrong", i === chosen && i !== question.right);
    });
    return answered(chosen, chosen === question.right, "", question.because);
  }
  if (!field.value.trim()) return tell(["Write an answer first."]);
  if (question.free) return answered(field.value, null, question.free, question.because);
  const value = number(field.value);
  if (!Number.isFinite(value)) return tell(["That is no number."]);
  // A little more than the tolerance: 0.1 + 0.2 is not 0.3 here.
  const right = Math.abs(value - number(question.number)) <= Number(question.tolerance) + 1e-9;
  answered(field.value, right, right && value === number(question.number) ? "" : `It is **${question.number}**.`, question.because);
}

// What was `given` is kept, so that Back shows it; of several answers the first one counts.
function answered(given, right, answer, because) {
  const { answers, right: first } = mine();
  const { then } = lesson.steps[at];
  done = true;
  keep(true);
  write({ answers: { ...answers, [at]: given }, right: right === null || at in first ? first : { ...first, [at]: right } });
  mark(lesson.steps[at]);
  if (then) seek(then);
  buttons();
  const head = right === null ? "**One answer:**" : right ? "**Right.**" : "**Not quite.**";
  tell([`${head} ${answer}`, because]);
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
  opened = null;
  bright();
  address({ lesson: lesson.name, step: at + 1 });
  const view = !fresh && at === before + 1 ? step.opens : viewOf(at);
  if (view) open(view);
  mark(step);
  document.body.classList.toggle("vd-picture", Boolean(step.ring && document.querySelector(step.ring)?.closest("#look-at")));
  part("told").replaceChildren();
  part("question").replaceChildren();
  if (step.question) ask(step.question, done ? answers[at] : undefined);
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
  const next = props.value.lessons[props.value.lessons.indexOf(lesson) + 1];
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
  const found = props.value?.lessons?.find((each) => each.name === name);
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
  if (props.value?.lessons) return begin(detail);
  waiting = detail;
  trigger("want");
});
watch("value", () => {
  const query = new URLSearchParams(window.location.search);
  const wished = waiting ?? { name: query.get("lesson"), step: Number(query.get("step") ?? 1) - 1 || 0 };
  waiting = null;
  if (panel.hidden) begin(wished);
});
