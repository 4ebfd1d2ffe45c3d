// Lessons as numbered cards, with the progress that is saved in this browser. Only the lesson to do next has a primary
// button.
import { make, notice, redraw } from "../../components/shared.js";
import * as store from "../../store.js";
import { fill, fillPlural, TEXTS } from "../../texts.js";
import * as lessonPanel from "../panel/view.js";
import * as lessonProgress from "./progress.js";

const texts = TEXTS.catalog;

function button(text, properties, click) {
  const made = make("button", { type: "button", text, ...properties });
  made.addEventListener("click", click);
  return made;
}

// Add the progress to a lesson: the saved `step` (from 1), and whether the lesson is begun and finished.
function withProgress(lesson, index) {
  const { step, done } = lessonProgress.read(lesson.name);
  const isFinished = done.length >= lesson.steps;
  const isBegun = (step > 0 || done.length > 0) && !isFinished;
  return {
    ...lesson,
    number: index + 1,
    step: Math.min(step + 1, lesson.steps),
    share: Math.min(done.length / lesson.steps, 1),
    isBegun,
    isFinished,
  };
}

// Length of a lesson, and the step to continue with.
function describe({ minutes, steps, step, isBegun, isFinished }) {
  const time = fillPlural(texts, "minutes", minutes);
  if (isFinished) return fill(texts.finished, { minutes: time });
  if (isBegun) return fill(texts.begun, { minutes: time, step, steps });
  return fill(texts.length, { minutes: time, steps: fillPlural(texts, "steps", steps) });
}

function buttons({ name, title, step, isBegun, isFinished }, isNext) {
  const label = isBegun ? texts.continue : isFinished ? texts.repeat : texts.start;
  const startOver = (teach) => {
    lessonProgress.clear(name);
    lessonPanel.begin(name, 1, teach);
  };
  const start = (teach) => (isBegun ? lessonPanel.begin(name, step, teach) : startOver(teach));
  return make(
    "div",
    { className: "buttons" },
    button(label, {
      className: isNext ? "begin next" : "begin",
      "data-pick": name,
      "aria-label": `${label}: ${title}`,
    }, () => start()),
    button(
      texts.teach,
      { "data-pick": `${name} teach`, "aria-label": `${texts.teach}: ${title}` },
      () => start("1"),
    ),
    isBegun
      ? button(texts.start_over, {
        "data-pick": `${name} again`,
        "aria-label": `${texts.start_over}: ${title}`,
      }, () => startOver())
      : null,
  );
}

function card(lesson, isNext, isFirstVisit) {
  const { number, title, goal, thumbnail, share } = lesson;
  const picture = thumbnail
    ? make("img", { className: "thumb", src: thumbnail.url, alt: "", width: 112, height: 112 })
    : make("span", { className: "thumb" });
  return make(
    "li",
    { className: isNext ? "next" : null },
    picture,
    make(
      "div",
      { className: "words" },
      isNext && isFirstVisit ? make("b", { className: "here", text: texts.start_here }) : null,
      make("h2", {}, make("span", { className: "number", text: number }), ` ${title}`),
      make("p", { text: goal }),
      make("small", { text: describe(lesson) }),
      share ? make("div", { className: "bar" }, make("i", { style: `width: ${100 * share}%` })) : null,
      buttons(lesson, isNext),
    ),
  );
}

store.define("lesson_catalog", {
  skeleton: "tiles",
  needs: [],
  create(element) {
    const [cards, notes] = [make("ol", { className: "cards" }), make("div", { className: "notes" })];
    element.replaceChildren(cards, notes);
    return {
      render({ lessons, messages }) {
        const all = lessons.map(withProgress);
        const next = all.find(({ isBegun }) => isBegun) ?? all.find(({ isFinished }) => !isFinished);
        const isFirstVisit = all.every(({ isBegun, isFinished }) => !isBegun && !isFinished);
        redraw(cards, ...all.map((lesson) => card(lesson, lesson === next, isFirstVisit)));
        notes.replaceChildren(...messages.map(notice));
      },
    };
  },
});
