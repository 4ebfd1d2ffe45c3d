// Lesson question as a form: multiple choice, a number, or a free text answer.
Object.assign(window.vitdemo, (() => {
  const { make, marked } = window.vitdemo;
  const number = (text) => Number(text.trim().replace("−", "-").replace(",", ".").replace(/\s*%$/, ""));

  function words(question, covered) {
    const notes = [];
    if (covered) notes.push("Part of the page is hidden until you answer.");
    if (Number(question.tolerance)) notes.push(`Answers within ±${question.tolerance} count as correct. Use a minus sign for negative numbers.`);
    return [make("p", {}, ...marked(question.words)), notes.length ? make("small", { text: notes.join(" ") }) : null].filter(Boolean);
  }

  function fieldOf({ words, choices, free }) {
    if (choices.length) return make("div", { role: "radiogroup", "aria-label": words }, ...choices.map((text, i) =>
      make("label", {}, make("input", { type: "radio", name: "answer", value: i }), make("span", {}, ...marked(text)))));
    return free
      ? make("textarea", { rows: 3, "aria-label": words })
      : make("input", { type: "text", inputMode: "decimal", "aria-label": words });
  }

  // Check an answer: {missing: message} if it is incomplete, otherwise {given, right, answer}. `right`
  // is null for free text.
  function judged(question, field) {
    if (question.choices.length) {
      const given = [...field.querySelectorAll("input")].findIndex((each) => each.checked);
      if (given < 0) return { missing: "Choose an answer first." };
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
    if (!Number.isFinite(value)) return { missing: `'${given}' is not a number.` };
    // Allow a little more than the tolerance because of rounding errors.
    const right = Math.abs(value - wanted) <= Number(question.tolerance) + 1e-9;
    return { given, right, answer: right && value === wanted ? "" : `The answer is **${question.number}**.` };
  }

  // Fill `form`. Call `answered` with the result of `judged` for each answer, and immediately for an
  // answer `given` before.
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
