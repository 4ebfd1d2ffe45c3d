// A lesson, step by step, beside the page. A task is done by the person's own click or change, which
// this script recognises wherever on the page it is; nothing of it is sent to the server.
const { address, make, marked, visit } = vitdemo;
const part = (name) => element.querySelector("." + name);
const panel = part("lesson");
const KEPT = "vitdemo-lessons"; // in the browser: {name: {step, steps, done: [numbers]}}
const SEEK = 3000; // milliseconds: a view is drawn in parts
const OWN = ["lesson", "step", "teach"]; // of the address, whatever view is open
const teaches = new URLSearchParams(window.location.search).get("teach") === "1";
let lesson = null;
let at = 0; // the step, from 0
let done = false; // of the step
let waiting = null; // what is to begin when the lessons are here
let seeking = 0; // until when what the step points at is brought into the window

// --- what is kept ---

function kept() {
  try {
    return JSON.parse(localStorage.getItem(KEPT)) ?? {};
  } catch {
    return {}; // none, or a browser that keeps nothing
  }
}

function keep(finished) {
  const all = kept();
  const known = all[lesson.name]?.done ?? [];
  all[lesson.name] = { step: at, steps: lesson.steps.length, done: finished && !known.includes(at) ? [...known, at] : known };
  try {
    localStorage.setItem(KEPT, JSON.stringify(all));
  } catch {
    // It runs all the same.
  }
  document.dispatchEvent(new CustomEvent("vitdemo:progress"));
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

const ring = document.head.appendChild(document.createElement("style"));
function point(selector) {
  ring.textContent = selector ? `${selector} { outline: 3px solid #f59e0b; outline-offset: -3px; border-radius: 6px; }` : "";
}

const pointed = () => {
  const { ring } = lesson.steps[at];
  return ring ? [...document.querySelectorAll(ring)].find((each) => each.getClientRects().length) : null;
};

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
  const found = pointed();
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
const current = () => (panel.hidden || done ? null : lesson?.steps[at].task);

function finish() {
  done = true;
  keep(true);
  draw();
}

document.addEventListener("click", (event) => {
  if (!panel.contains(event.target)) bright();
  const task = current();
  if (task?.kind === "press" && inside(event.target, task.where)) finish();
  if (task?.kind === "choose" && inside(event.target, task.where)) {
    // A list of gradio's, or a radio button: its words.
    const words = event.target.closest("label, li, [role=option]")?.textContent.trim();
    if (words && (!task.value || words === task.value)) finish();
  }
}, true);
function changed(event) {
  const task = current();
  if (!task || !inside(event.target, task.where || "*")) return;
  if (task.kind === "set" && numeric[task.op](Number(event.target.value), Number(task.value))) finish();
  const chosen = event.target.selectedOptions?.[0]?.textContent.trim() ?? event.target.value;
  if (task.kind === "choose" && (!task.value || [chosen, event.target.value].includes(task.value))) finish();
}
for (const kind of ["input", "change"]) document.addEventListener(kind, changed, true);
for (const kind of ["wheel", "touchmove", "pointerdown", "keydown"]) document.addEventListener(kind, () => (seeking = 0), { capture: true, passive: true });
document.addEventListener("vitdemo:drawn", ({ detail }) => {
  const isPatch = /^\d+,\d+$/.test(detail.token);
  if (current()?.kind === "point" && isPatch) finish();
});
// What an answer of the server brings, or the address says.
setInterval(() => {
  const task = current();
  if (!panel.hidden && Date.now() < seeking) {
    const found = pointed();
    if (found) reveal(found);
  }
  if (task?.kind === "see" && new URLSearchParams(window.location.search).get(task.where) === task.value) finish();
  if (task?.kind === "shown" && [...document.querySelectorAll(task.where)].some((each) => each.offsetParent)) finish();
}, 300);

// --- questions ---

function tell(paragraphs, action) {
  part("told").replaceChildren(...paragraphs.filter(Boolean).map((text) => make("p", {}, ...marked(text))));
  action?.();
  part("told").scrollIntoView({ block: "nearest" });
}

const number = (text) => Number(text.trim().replace("−", "-").replace(",", ".").replace(/\s*%$/, ""));

function ask(question) {
  const form = part("question");
  const words = make("p", {}, ...marked(question.words));
  const check = make("button", { type: "submit", text: question.free ? "Compare" : "Check" });
  let field;
  if (question.choices.length) {
    field = make("div", { role: "radiogroup", "aria-label": question.words }, ...question.choices.map((text, i) =>
      make("label", {}, make("input", { type: "radio", name: "answer", value: i }), make("span", {}, ...marked(text)))));
  } else if (question.free) field = make("textarea", { rows: 3, "aria-label": question.words });
  else field = make("input", { type: "text", inputMode: "decimal", "aria-label": question.words });
  form.replaceChildren(words, field, check);
  form.onsubmit = (event) => {
    event.preventDefault();
    judge(question, field);
  };
}

function judge(question, field) {
  if (question.choices.length) {
    const chosen = [...field.querySelectorAll("input")].findIndex((each) => each.checked);
    if (chosen < 0) return tell(["Choose one first."]);
    field.querySelectorAll("label").forEach((label, i) => {
      label.classList.toggle("right", i === question.right);
      label.classList.toggle("wrong", i === chosen && i !== question.right);
    });
    return answered(chosen === question.right, "", question.because);
  }
  if (!field.value.trim()) return tell(["Write an answer first."]);
  if (question.free) return answered(null, question.free, question.because);
  const value = number(field.value);
  if (!Number.isFinite(value)) return tell(["That is no number."]);
  // A little more than the tolerance: 0.1 + 0.2 is not 0.3 here.
  const right = Math.abs(value - number(question.number)) <= Number(question.tolerance) + 1e-9;
  answered(right, right ? "" : `It is **${question.number}**.`, question.because);
}

function answered(right, answer, because) {
  done = true;
  keep(true);
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
  const before = at;
  at = Math.min(Math.max(number, 0), lesson.steps.length - 1);
  const step = lesson.steps[at];
  done = false;
  seeking = Date.now() + SEEK;
  bright();
  address({ lesson: lesson.name, step: at + 1 });
  const view = !fresh && at === before + 1 ? step.opens : viewOf(at);
  if (view) open(view);
  point(step.ring);
  document.body.classList.toggle("vd-picture", Boolean(step.ring && document.querySelector(step.ring)?.closest("#look-at")));
  part("told").replaceChildren();
  part("question").replaceChildren();
  if (step.question) ask(step.question);
  keep(!step.task && !step.question);
  draw();
  part("body").scrollTop = 0;
  part("title").focus({ preventScroll: true });
}

function begin({ name, step }) {
  const found = props.value?.lessons?.find((each) => each.name === name);
  if (!found) return;
  lesson = found;
  panel.hidden = false;
  document.body.classList.add("vd-lesson");
  go(step, { fresh: true });
}

function leave() {
  panel.hidden = true;
  document.body.classList.remove("vd-lesson");
  point("");
  bright();
  address({ lesson: null, step: null });
  document.querySelector("#tabs [role=tab][aria-selected=true]")?.focus({ preventScroll: true });
}

function on() {
  if (at < lesson.steps.length - 1) return go(at + 1);
  leave();
  visit("?tab=lessons" + (teaches ? "&teach=1" : ""));
}

part("back").addEventListener("click", () => go(at - 1));
part("on").addEventListener("click", on);
part("show").addEventListener("click", show);
part("leave").addEventListener("click", leave);
document.addEventListener("keydown", (event) => {
  if (panel.hidden) return;
  if (event.key !== "Tab") bright();
  const free = event.target === document.body || event.target === part("title");
  if (!teaches || !free || event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === "ArrowRight" || event.key === " ") on();
  else if (event.key === "ArrowLeft") go(at - 1);
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
