// Teach mode is a stage: during a lesson, only the parts of the page that the step is about are visible. The parts, and the
// elements around them, are marked with `data-stage`; the style of the panel hides everything else.
import { getPlace } from "./tasks.js";

const EVERY = 100; // milliseconds between two searches for the parts
const PATIENCE = 2000; // milliseconds in which the next parts may appear before the whole page is shown
const MARKED = "[data-stage]";
// The state belongs to the module, because it is about the whole document.
let current = null; // { step, base }: the step, and the step that opened the view or chose the parts; null: no stage
let shown = []; // the parts on the stage
let end = 0; // time in milliseconds until which the previous parts remain

const listMatches = (selector) => selector ? [...document.querySelectorAll(`#tabs :is(${selector})`)] : [];
const findOwn = ({ ring, task }) => [ring, getPlace(task)].flatMap(findAll);
const isVisible = (element) => element.getClientRects().length > 0;

// The elements of a selector. If their view is not drawn yet, the result is the view, because hidden views request no
// data.
function findAll(selector) {
  const found = listMatches(selector);
  return found.length ? found : listMatches(selector?.match(/^#[\w-]+/)?.[0]);
}

// The view of an element, or the section of the page if it is in no view.
const findView = (element) => element.closest("[data-view]") ?? element.closest("[role=tabpanel]") ?? element;

// The element together with its name, which gradio writes next to a control.
function addName(element) {
  const isBare = element.matches("input, select") && !element.closest("[data-view]");
  return element.closest("label") ?? (isBare ? element.closest(".block") : null) ?? element;
}

function findParts({ step, base }) {
  const own = findOwn(step);
  const chosen = base.show
    ? base.show.split(/, *(?=#)/).flatMap(findAll)
    : [...findOwn(base), ...own].map(findView);
  return [...chosen, ...own, ...findAll(step.then)].map(addName);
}

function mark(parts) {
  const outer = parts.filter((each) => !parts.some((other) => other !== each && other.contains(each)));
  const marks = new Map(outer.map((each) => [each, "part"]));
  for (const part of outer) {
    for (let each = part.parentElement; each?.closest("#tabs"); each = each.parentElement) {
      marks.set(each, "way");
    }
  }
  for (const each of document.querySelectorAll(MARKED)) if (!marks.has(each)) delete each.dataset.stage;
  for (const [each, name] of marks) if (each.dataset.stage !== name) each.dataset.stage = name;
}

// Show the parts. While none of them is visible, the previous parts remain for a moment, and then the whole page is shown.
function update() {
  if (!current) return;
  const parts = findParts(current);
  mark([...shown, ...parts]); // the stage must not hide the parts that are sought
  if (parts.some(isVisible)) {
    if (end) window.scrollTo({ top: 0 });
    [shown, end] = [parts, 0];
  } else if (Date.now() > end) shown = [];
  else return;
  mark(shown);
}

// Show only the parts of the step with this number, counted from 1; 0: show the whole page.
export function set(steps, number) {
  const until = steps.slice(0, number);
  const base = until.findLast(({ opens, show }) => opens || show) ?? until[0];
  current = base ? { step: until.at(-1), base } : null;
  end = Date.now() + PATIENCE;
  if (!current) mark(shown = []);
  update();
}

setInterval(update, EVERY);
