// Buttons that save the handout of the chosen lesson.
import { drawActionButton, saveText } from "../../components/shared.js";
import { createProgressLine } from "../../components/task_panel.js";
import { makeElement, markup, render } from "../../markup.js";
import * as store from "../../store.js";
import { CANCEL } from "../../texts.js";

const BUTTONS = { // by the name of the task
  handouts: { id: "hand-out", text: "Save handout (HTML)" },
  "handouts.answers": { id: "answers-out", text: "Save with answers (HTML)" },
};
const KEY = "handouts.lesson";

function create(element) {
  const makeButton = (...options) => makeElement(drawActionButton(...options));
  const buttons = Object.entries(BUTTONS).map(([task, { id, text }]) =>
    makeButton(text, () => store.startTask(task, listen, [KEY]), id)
  );
  const cancel = makeButton(CANCEL, () => {
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
