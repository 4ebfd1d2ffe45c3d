// Lesson question as a form: multiple choice, a number, or a free text answer.
import { drawMarkdown } from "../../components/shared.js";
import { makeElement, markup, nothing, render } from "../../markup.js";

const parseNumber = (text) => Number(text.trim().replace("−", "-").replace(",", ".").replace(/\s*%$/, ""));

function drawQuestion(question, isCovered) {
  const { tolerance } = question;
  const notes = [
    isCovered ? "Part of the page is hidden until you answer." : "",
    Number(tolerance)
      ? `Answers within ±${tolerance} count as correct. Use a minus sign for negative numbers.`
      : "",
  ].filter(Boolean);
  return markup`<p>${drawMarkdown(question.text)}</p>${
    notes.length ? markup`<small>${notes.join(" ")}</small>` : nothing
  }`;
}

function makeField({ text, choices, free }) {
  if (free && !choices.length) return makeElement(markup`<textarea rows="3" aria-label=${text}></textarea>`);
  const drawChoice = (text, i) =>
    markup`<label><input type="radio" name="answer" value=${i}><span>${drawMarkdown(text)}</span></label>`;
  return makeElement(
    choices.length
      ? markup`<div role="radiogroup" aria-label=${text}>${choices.map(drawChoice)}</div>`
      : markup`<input type="text" inputmode="decimal" aria-label=${text}>`,
  );
}

function checkChoice({ right }, field) {
  const given = [...field.querySelectorAll("input")].findIndex((each) => each.checked);
  if (given < 0) return { missing: "Choose an answer first." };
  field.querySelectorAll("label").forEach((label, i) => {
    label.classList.toggle("right", i === right);
    label.classList.toggle("wrong", i === given && i !== right);
  });
  return { given, right: given === right, answer: "" };
}

// Check an answer: { missing: message } if it is incomplete, otherwise { given, right, answer }. `right`
// is null for free text.
function check(question, field) {
  if (question.choices.length) return checkChoice(question, field);
  const given = field.value;
  if (!given.trim()) return { missing: "Write an answer first." };
  if (question.free) return { given, right: null, answer: question.free };
  const [value, wanted] = [parseNumber(given), parseNumber(question.number)];
  if (!Number.isFinite(value)) {
    return { missing: `'${given}' is not a number. Enter a number, for example 2.5.` };
  }
  // Allow a little more than the tolerance because of rounding errors.
  const right = Math.abs(value - wanted) <= Number(question.tolerance) + 1e-9;
  return {
    given,
    right,
    answer: right && value === wanted ? "" : `The answer is **${question.number}**.`,
  };
}

// Fill `form`. Call `takeAnswer` with the result of `check` for each answer, and immediately for an
// answer `given` before.
export function askQuestion(form, question, { covered, given, takeAnswer }) {
  const field = makeField(question);
  const submit = question.free ? "Compare" : "Check";
  render(markup`${drawQuestion(question, covered)}${field}<button type="submit">${submit}</button>`, form);
  form.onsubmit = (event) => {
    event.preventDefault();
    takeAnswer(check(question, field));
  };
  if (given === undefined) return;
  if (question.choices.length) field.querySelectorAll("input")[given]?.click();
  else field.value = given;
  takeAnswer(check(question, field));
}
