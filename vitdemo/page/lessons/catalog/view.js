// Lessons as numbered cards, with the progress that is saved in this browser. Only the lesson to do next has a primary
// button.
import { drawNotice } from "../../components/shared.js";
import { markup, nothing, render } from "../../markup.js";
import * as store from "../../store.js";
import { fillPlural } from "../../texts.js";
import * as lessonProgress from "../progress.js";

const drawButton = (text, { pick, title, className = nothing }, click) =>
  markup`<button type="button" class=${className} data-pick=${pick} aria-label="${text}: ${title}"
    @click=${click}>${text}</button>`;

// Add the progress to a lesson: the saved `step` (from 1), and whether the lesson is begun and finished.
function addProgress(lesson, index) {
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
  const time = fillPlural(minutes, "{count} minute", "{count} minutes");
  if (isFinished) return `${time} · ✓ done`;
  if (isBegun) return `${time} · step ${step} of ${steps}`;
  return `${time} · ${fillPlural(steps, "{count} step", "{count} steps")}`;
}

function drawButtons({ name, title, step, isBegun, isFinished }, isNext) {
  const label = isBegun ? "Continue" : isFinished ? "Repeat" : "Start";
  const startOver = (teach) => {
    lessonProgress.clear(name);
    lessonProgress.begin(name, 1, teach);
  };
  const start = (teach) => (isBegun ? lessonProgress.begin(name, step, teach) : startOver(teach));
  const className = isNext ? "begin next" : "begin";
  const drawStartOver = () => drawButton("Start over", { pick: `${name} again`, title }, () => startOver());
  return markup`<div class="buttons">${drawButton(label, { pick: name, title, className }, () => start())}${
    drawButton("Teach", { pick: `${name} teach`, title }, () => start("1"))
  }${isBegun ? drawStartOver() : nothing}</div>`;
}

function drawCard(lesson, isNext, isFirstVisit) {
  const { number, title, goal, thumbnail, share } = lesson;
  const drawThumbnail = () => markup`<img class="thumb" src=${thumbnail.url} alt="" width="64" height="64">`;
  return markup`<li class=${isNext ? "next" : nothing}>
    ${thumbnail ? drawThumbnail() : markup`<span class="thumb"></span>`}
    <div class="words">
      ${isNext && isFirstVisit ? markup`<b class="here">Start here</b>` : nothing}
      <h2><span class="number">${number}</span>${` ${title}`}</h2>
      <p>${goal}</p>
      <small>${describe(lesson)}</small>
      ${share ? markup`<div class="bar"><i style="width: ${100 * share}%"></i></div>` : nothing}
      ${drawButtons(lesson, isNext)}
    </div>
  </li>`;
}

store.define("lesson_catalog", {
  skeleton: "tiles",
  render(element, { lessons, messages }) {
    const all = lessons.map(addProgress);
    const next = all.find(({ isBegun }) => isBegun) ?? all.find(({ isFinished }) => !isFinished);
    const isFirstVisit = all.every(({ isBegun, isFinished }) => !isBegun && !isFinished);
    const cards = all.map((lesson) => drawCard(lesson, lesson === next, isFirstVisit));
    render(
      markup`<ol class="cards">${cards}</ol><div class="notes">${messages.map(drawNotice)}</div>`,
      element,
    );
  },
});
