// A question of a lesson, as a form: choices, a number, or an answer in words of one's own.
Object.assign(window.vitdemo, (() => {
  const { make, marked } = window.vitdemo;
  const number = (text) => Number(text.trim().replace("−", "-").replace(",", ".").replace(/\s*%$/, ""));

  function words(question, covered) {
    const notes = [];
    if (covered) notes.push("What would tell it is covered until you answer.");
    if (Number(question.tolerance)) notes.push(`Within ${question.tolerance} counts as right; a loss has a minus.`);
    return [make("p", {}, ...marked(question.words)), notes.length ? make("small", { text: notes.join(" ") }) : null].filter(Boolean);
  }

  function fieldOf({ words, choices, free }) {
    if (choices.length) return make("div", { role: "radiogroup", "aria-label": words }, ...choices.map((text, i) =>
      make("label", {}, make("input", { type: "radio", name: "answer", value: i }), make("span", {}, ...marked(text)))));
    return free
      ? make("textarea", { rows: 3, "aria-label": words })
      : make("input", { type: "text", inputMode: "decimal", "aria-label": words });
  }

  // {missing} why it cannot be judged yet, or {given, right, answer}: `right` is null of what is free.
  function judged(question, field) {
    if (question.choices.length) {
      const given = [...field.querySelectorAll("input")].findIndex((each) => each.checked);
      if (given < 0) return { missing: "Choose one first." };
      field.querySelectorAll("label").forEach((label, i) => {
        label.classList.toggle("right", i === question.right);
        label.classList.toggle("wrong", i === given && i !== question.right);
      });
      return { given, right: given === question.right, answer: "" };
    }
    const given = field.value;
    if (!given.trim()) return { missing: "Write an answer first." };
    if (question.free) return { given, right: null, answer: question.free };
    const [value, wanted] = [number(given), number(question.number)];
    if (!Number.isFinite(value)) return { missing: "That is no number." };
    // A little more than the tolerance: 0.1 + 0.2 is not 0.3 here.
    const right = Math.abs(value - wanted) <= Number(question.tolerance) + 1e-9;
    return { given, right, answer: right && value === wanted ? "" : `It is **${question.number}**.` };
  }

  // Fills `form`; `answered` is told of each answer as `judged` has it, and at once of one `given` before.
  function askQuestion(form, question, { covered, given, answered }) {
    const field = fieldOf(question);
    const check = make("button", { type: "submit", text: question.free ? "Compare" : "Check" });
    form.replaceChildren(...words(question, covered), field, check);
    form.onsubmit = (event) => {
      event.preventDefault();
      answered(judged(question, field));
    };
    if (given === undefined) return;
    if (question.choices.length) field.querySelectorAll("input")[given]?.click();
    else field.value = given;
    answered(judged(question, field));
  }

  return { askQuestion };
})());
