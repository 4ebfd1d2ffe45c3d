// Buttons that save the handout of the chosen lesson.
import { drawActionButton, saveText } from "../../components/shared.js";
import { createProgressLine } from "../../components/task_panel.js";
import { makeElement, markup, render } from "../../markup.js";
import * as store from "../../store.js";
import { TEXTS } from "../../texts.js";

const texts = TEXTS.handouts;
const BUTTONS = { // by the name of the task
  handouts: { id: "hand-out", text: texts.save },
  "handouts.answers": { id: "answers-out", text: texts.save_answers },
};
const KEY = "handouts.lesson";

function create(element) {
  const makeButton = (...options) => makeElement(drawActionButton(...options));
  const buttons = Object.entries(BUTTONS).map(([task, { id, text }]) =>
    makeButton(text, () => store.startTask(task, listen, [KEY]), id)
  );
  const cancel = makeButton(TEXTS.task_panel.cancel, () => {
    store.cancelTask();
    buttons[0].focus();
  });
  const progress = createProgressLine("", cancel);

  function listen(message) {
    progress.show(message);
    if (message.data) saveText(message.data.text, message.data.name, "text/html");
  }
  render(markup`<div class="vd-task"><div class="buttons">${buttons}</div>${progress.place}</div>`, element);

  return {
    render({ count }) {
      for (const button of buttons) button.disabled = !count;
    },
  };
}

store.define("handouts", { create });
