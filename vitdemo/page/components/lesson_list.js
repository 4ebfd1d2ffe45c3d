// Lessons as cards, with the progress saved in this browser.
const { make, notice, received, redraw } = vitdemo;
const begin = (name, step, anew) => document.dispatchEvent(new CustomEvent("vitdemo:lesson", { detail: { name, step, anew } }));

function kept() {
  try {
    return JSON.parse(localStorage.getItem("vitdemo-lessons")) ?? {};
  } catch {
    return {};
  }
}

function card({ name, title, minutes, goal, steps }) {
  const { step = 0, done = [] } = kept()[name] ?? {};
  const finished = done.length >= steps;
  const begun = (step > 0 || done.length > 0) && !finished;
  const start = make("button", { type: "button", className: "begin", text: begun ? "Continue" : finished ? "Repeat" : "Start", "data-pick": name, "aria-label": `${begun ? "Continue" : finished ? "Repeat" : "Start"}: ${title}` });
  start.addEventListener("click", () => begin(name, begun ? step : 0, !begun));
  const again = make("button", { type: "button", text: "Start over", "data-pick": `${name} again` });
  again.addEventListener("click", () => begin(name, 0, true));
  const words = `${minutes} minutes, ${steps} steps${done.length ? `; ${finished ? "done" : `${done.length} done`}` : ""}`;
  return make("li", {}, make("h2", { text: title }), make("p", { text: goal }), make("small", { text: words }),
    make("div", { className: "bar" }, make("i", { style: `width: ${(100 * Math.min(done.length, steps)) / steps}%` })),
    make("div", { className: "buttons" }, start, begun ? again : null));
}

function draw() {
  const { lessons = [], missing = [], problems = [] } = received(props) || {};
  redraw(element.querySelector(".cards"), ...lessons.map(card));
  element.querySelector(".notes").replaceChildren(
    ...missing.map(({ titles, words }) => notice(`${titles.map((title) => `'${title}'`).join(", ")} ${titles.length > 1 ? "are" : "is"} not available. Required: ${words}.`)), ...problems.map((words) => notice(words)));
}
document.addEventListener("vitdemo:progress", function follow() {
  if (!element.isConnected) return document.removeEventListener("vitdemo:progress", follow);
  draw();
});
watch("value", draw);
draw();
