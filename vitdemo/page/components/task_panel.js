// Buttons that start tasks of bridge.py, Cancel while a task runs, and the progress of the task.
Object.assign(window.vitdemo, (() => {
  const { make, notice } = window.vitdemo;

  // `starts` are { id, text, task }; `unit` names the steps. After each step, which has its own text, and at the
  // end, the data of `views` are requested again. The result of a task is a list of error messages.
  function taskPanel({ starts, unit, views }) {
    const [bar, text, steps] = [make("progress"), make("span", { role: "status" }), make("span")];
    const progress = make("p", {}, bar, text, steps);
    const [buttons, shown] = [make("div", { className: "buttons" }), make("div")];
    let before = null; // the previous message of the task

    const begin = starts.map(({ id, text: label, task }) => {
      const button = make("button", { type: "button", className: "vd-download", id, text: label });
      button.addEventListener("click", () => vitdemo.store.startTask(task, receive));
      return button;
    });
    const cancel = make("button", { type: "button", className: "vd-download", text: "Cancel" });
    cancel.addEventListener("click", () => vitdemo.store.cancelTask());

    function receive(message) {
      const isNextStep = before?.text && message.text !== before.text;
      if (message.end || isNextStep) views.forEach(vitdemo.store.invalidate);
      before = message.end ? null : message;
      if (message.end) showEnd(message);
      else showProgress(message);
    }

    function showEnd({ data, error }) {
      const hadFocus = document.activeElement === cancel;
      cancel.remove();
      for (const button of begin) button.disabled = false;
      if (hadFocus) begin[0].focus();
      shown.replaceChildren(...(error ? [error] : (data ?? [])).map(notice));
    }

    // Progress changes only texts, because a click on a button that is replaced meanwhile is lost.
    function showProgress({ done, total, text: words }) {
      const label = words || "Waiting for the server";
      if (text.textContent !== label) text.textContent = bar.ariaLabel = label;
      steps.textContent = words ? `${done} of ${total} ${unit}` : "";
      if (words) Object.assign(bar, { max: total, value: done });
      else bar.removeAttribute("value");
      if (cancel.parentElement) return;
      for (const button of begin) button.disabled = true;
      buttons.append(cancel);
      shown.replaceChildren(progress);
    }

    buttons.append(...begin);
    return make("div", { className: "vd-task" }, buttons, shown);
  }

  return { taskPanel };
})());
