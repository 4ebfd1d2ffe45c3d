// Buttons that save the handout of the chosen lesson.
import { make, saveText } from "../../components/shared.js";
import { progressLine } from "../../components/task_panel.js";
import * as store from "../../store.js";
import { TEXTS } from "../../texts.js";

const texts = TEXTS.handouts;
const BUTTONS = { // by the name of the task
  handouts: { id: "hand-out", text: texts.save },
  "handouts.answers": { id: "answers-out", text: texts.save_answers },
};
const KEY = "handouts.lesson";

function create(element) {
  const cancel = make("button", { type: "button", className: "vd-download", text: TEXTS.task_panel.cancel });
  const progress = progressLine("", cancel);

  function listen(message) {
    progress.show(message);
    if (message.data) saveText(message.data.text, message.data.name, "text/html");
  }
  const buttons = Object.entries(BUTTONS).map(([task, properties]) => {
    const button = make("button", { type: "button", className: "vd-download", ...properties });
    button.addEventListener("click", () => store.startTask(task, listen, [KEY]));
    return button;
  });
  cancel.addEventListener("click", () => {
    store.cancelTask();
    buttons[0].focus();
  });
  element.replaceChildren(
    make("div", { className: "vd-task" }, make("div", { className: "buttons" }, ...buttons), progress.place),
  );

  return {
    render({ count }) {
      for (const button of buttons) button.disabled = !count;
    },
  };
}

store.define("handouts", { needs: [], create });
