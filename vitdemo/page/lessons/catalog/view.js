// Lessons as cards, with the progress that is saved in this browser.
(() => {
const { fill, fillPlural, lessonProgress, make, notice, redraw, store } = vitdemo;
const texts = vitdemo.texts.catalog;

function button(text, properties, click) {
  const made = make("button", { type: "button", text, ...properties });
  made.addEventListener("click", click);
  return made;
}

// Length of a lesson, and the number of completed steps.
function describe({ minutes, steps, done }) {
  const length = fill(texts.length, { minutes: fillPlural(texts, "minutes", minutes), steps: fillPlural(texts, "steps", steps) });
  if (!done) return length;
  return done >= steps ? fill(texts.finished, { length }) : fill(texts.begun, { length, done });
}

function card({ name, title, minutes, goal, steps }) {
  const { step, done } = lessonProgress.read(name);
  const finished = done.length >= steps;
  const begun = (step > 0 || done.length > 0) && !finished;
  const label = begun ? texts.continue : finished ? texts.repeat : texts.start;
  const startOver = () => {
    lessonProgress.clear(name);
    vitdemo.lessonPanel.begin(name, 1);
  };
  const start = begun ? () => vitdemo.lessonPanel.begin(name, step + 1) : startOver;
  return make("li", {}, make("h2", { text: title }), make("p", { text: goal }), make("small", { text: describe({ minutes, steps, done: done.length }) }),
    make("div", { className: "bar" }, make("i", { style: `width: ${(100 * Math.min(done.length, steps)) / steps}%` })),
    make("div", { className: "buttons" },
      button(label, { className: "begin", "data-pick": name, "aria-label": `${label}: ${title}` }, start),
      begun ? button(texts.start_over, { "data-pick": `${name} again` }, startOver) : null));
}

store.define("lesson_catalog", {
  skeleton: "rows",
  needs: [],
  create(element) {
    const [cards, notes] = [make("ol", { className: "cards" }), make("div", { className: "notes" })];
    element.replaceChildren(cards, notes);
    return {
      render({ lessons, messages }) {
        redraw(cards, ...lessons.map(card));
        notes.replaceChildren(...messages.map(notice));
      },
    };
  },
});
})();
