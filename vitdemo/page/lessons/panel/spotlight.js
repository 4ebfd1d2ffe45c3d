// Outlines the element of the page that a lesson step points at, scrolls to it, and hides elements that would reveal
// an answer.
import { makeElement, markup } from "../../markup.js";

const SEEK_TIME = 8000; // milliseconds that the parts of a view may need to appear
const EVERY = 300; // milliseconds between two searches for the element
// The state belongs to the module, because it is about the whole document.
const marks = document.head.appendChild(document.createElement("style"));
let sought = null; // { selector, end: time in milliseconds } of the element that is scrolled into view
let held = false; // a pressed button or finger, during which the page must not scroll
let shade = null; // the element that darkens the page
let folded = []; // selectors of elements that may be in a fold, which is opened once
let place = ""; // the selector of the outlined element
let task = ""; // the selector of the control of the task

const find = (selector) =>
  selector && [...document.querySelectorAll(selector)].find((each) => each.getClientRects().length);

// Outline the element `ring`, and hide the element `cover`; both are CSS selectors.
export function mark({ ring, cover }) {
  marks.textContent = ring
    ? `${ring} { outline: 3px solid #f59e0b; outline-offset: 2px; border-radius: 6px; }`
    : "";
  if (cover) marks.textContent += ` ${cover}, ${cover} * { visibility: hidden !important; }`;
}

// Scroll to an element as soon as it is visible. Folds that contain the element, or the `control` of a task, are
// opened.
export function seek(selector, control = "") {
  sought = { selector, end: Date.now() + SEEK_TIME };
  folded = [selector, control].filter(Boolean);
  [place, task] = [selector, control];
}

// Open closed folds as soon as their elements are on the page. If an element is missing, the tables in closed folds are
// drawn first.
function unfold() {
  folded = folded.filter((selector) => {
    const found = document.querySelector(selector);
    if (!found && find(place)) find(place).querySelectorAll("vd-lazy:empty").forEach((each) => each.fill());
    return !found || !open(found);
  });
}

// Open the folds that contain the element, or that it is. The content of a closed accordion is added later, so the result is
// false until the accordion is open. The user opens an accordion if this is the task.
function open(found) {
  const label = found.closest(".gr-accordion")?.querySelector(".label-wrap");
  if (label && !label.matches(".open") && !(task && label.matches(task))) {
    label.click();
    return false;
  }
  for (let fold; (fold = found.closest("details:not([open])"));) fold.open = true;
  if (!found.getClientRects().length) found.dispatchEvent(new Event("vitdemo:reveal", { bubbles: true }));
  return true;
}

// The height of the part of the window that the lesson panel does not cover.
function getFreeHeight() {
  const panel = document.querySelector("#lesson .lesson").getBoundingClientRect();
  return panel.width < window.innerWidth ? window.innerHeight : panel.top;
}

// The element to scroll to: `found`, or the control of the task if `found` is larger than the free part of the window.
function chooseGoal(found) {
  const control = find(task);
  const isLarge = found.getBoundingClientRect().height > getFreeHeight();
  return isLarge && control && found.contains(control) ? control : found;
}

// Scroll an element into the free part of the window.
function reveal(found) {
  const free = getFreeHeight();
  const { top, bottom, height } = found.getBoundingClientRect();
  if (top >= 0 && (bottom <= free || (top < free / 2 && height > free))) return; // the element is already visible
  // Scroll as little as necessary, so that the context above the element remains visible.
  window.scrollBy({ top: top < 0 || height > free - 40 ? top - 20 : bottom - free + 20 });
}

// Darken everything except an element until `brighten`; return whether the element is visible.
export function show(selector) {
  brighten();
  const found = find(selector);
  if (!found) return false;
  reveal(found);
  requestAnimationFrame(() => {
    const { left, top, width, height } = found.getBoundingClientRect();
    const place = `left: ${left - 4}px; top: ${top - 4}px; width: ${width + 8}px; height: ${height + 8}px`;
    shade = makeElement(markup`<div class="vd-dim" style=${place}></div>`);
    document.body.append(shade);
  });
  return true;
}

export function brighten() {
  shade?.remove();
  shade = null;
}

// End all effects.
export function clear() {
  mark({});
  brighten();
  sought = null;
  folded = [];
}

const listen = (kinds, handle) =>
  kinds.forEach((kind) => document.addEventListener(kind, handle, { capture: true, passive: true }));
// The user scrolls now. Enter does not count, since it may have started this step.
listen(["wheel", "touchmove", "pointerdown", "keydown"], ({ key }) => {
  if (key !== "Enter") sought = null;
});
listen(["pointerdown"], () => {
  held = true;
});
listen(["pointerup", "pointercancel"], () => {
  held = false;
});
setInterval(() => {
  unfold();
  const found = !held && Date.now() < sought?.end && find(sought.selector);
  if (found) reveal(chooseGoal(found));
}, EVERY);
