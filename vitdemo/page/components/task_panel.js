// Buttons that start tasks of bridge.py, Cancel while a task runs, and the progress of the task.
Object.assign(window.vitdemo, (() => {
  const { make, notice } = window.vitdemo;
  const number = new Intl.NumberFormat("en");

  // The progress of a task in `place`: `show(message)` draws a message, finally only its error. `unit` names the steps ("":
  // no steps are shown); a task that knows no total reports seconds. `others` are elements after the text.
  function progressLine(unit = "steps", ...others) {
    const [bar, text, steps] = [make("progress"), make("span", { role: "status" }), make("span")];
    const line = make("p", {}, bar, text, steps, ...others);
    const place = make("div", { className: "vd-progress" });

    // Progress changes only texts, because a click on a button that is replaced meanwhile is lost.
    function show({ done, total, text: words, end, error }) {
      if (end) return place.replaceChildren(...(error ? [notice(error)] : []));
      const label = words || "Waiting for the server";
      if (text.textContent !== label) text.textContent = bar.ariaLabel = label;
      steps.textContent = !words || !unit ? "" : total ? `${number.format(done)} of ${number.format(total)} ${unit}` : `${done} s`;
      if (words && total) Object.assign(bar, { max: total, value: done });
      else bar.removeAttribute("value");
      if (!line.isConnected) place.replaceChildren(line);
    }
    return { place, show };
  }

  // `starts` are { id, text, task }; `unit` names the steps. After each step, which has its own text, and at the
  // end, the data of `views` are requested again. The result of a task is a list of error messages.
  function taskPanel({ starts, unit, views }) {
    const progress = progressLine(unit);
    const buttons = make("div", { className: "buttons" });
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
      progress.place.replaceChildren(...(error ? [error] : (data ?? [])).map(notice));
    }

    function showProgress(message) {
      progress.show(message);
      if (cancel.parentElement) return;
      for (const button of begin) button.disabled = true;
      buttons.append(cancel);
    }

    buttons.append(...begin);
    return make("div", { className: "vd-task" }, buttons, progress.place);
  }

  return { progressLine, taskPanel };
})());
