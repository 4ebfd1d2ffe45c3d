// Recognises on the whole page what a lesson asks a person to do: see lessons/__init__.py for tasks.
Object.assign(window.vitdemo, (() => {
  const EVERY = 300; // milliseconds: what an answer of the server brings, or the address says
  const LIST = "input[role=combobox]"; // a list of gradio's is no select
  const numeric = { ">=": (a, b) => a >= b, "<=": (a, b) => a <= b, "=": (a, b) => a === b };
  const inside = (target, where) => target instanceof Element && target.closest(where);
  const words = (label) => label?.textContent.trim();

  // Calls `finish` when the task that `current()` gives is done; null: none is to be done now.
  // A list is chosen from when it is closed again with another value than before `forget` was called.
  function watchTasks(current, finish) {
    let opened = null; // {list, value} before a person touched it

    document.addEventListener("click", ({ target }) => {
      const task = current();
      if (!["press", "choose"].includes(task?.kind) || !inside(target, task.where)) return;
      const chosen = words(target.closest("label")); // of a radio button
      if (task.kind === "press") finish();
      if (task.kind === "choose" && chosen && (!task.value || chosen === task.value)) finish();
    }, true);

    for (const kind of ["pointerdown", "keydown"]) document.addEventListener(kind, ({ target }) => {
      const list = current()?.kind === "choose" && inside(target, current().where)?.querySelector(LIST);
      if (list && opened?.list !== list) opened = { list, value: list.value };
    }, true);

    function chosenFrom({ where, value }) {
      const list = document.querySelector(`${where} ${LIST}`);
      if (!list || opened?.list !== list || list.getAttribute("aria-expanded") === "true") return false;
      return list.value !== opened.value && (!value || list.value === value);
    }

    for (const kind of ["input", "change"]) document.addEventListener(kind, ({ target }) => {
      const task = current();
      if (!task || !inside(target, task.where || "*") || target.matches(LIST)) return;
      if (task.kind === "set" && numeric[task.op](Number(target.value), Number(task.value))) finish();
      const chosen = words(target.selectedOptions?.[0]) ?? target.value;
      if (task.kind === "choose" && (!task.value || [chosen, target.value].includes(task.value))) finish();
    }, true);

    document.addEventListener("vitdemo:drawn", ({ detail }) => {
      if (current()?.kind === "point" && /^\d+,\d+$/.test(detail.token)) finish(); // at a patch
    });

    setInterval(() => {
      const task = current();
      if (task?.kind === "choose" && chosenFrom(task)) finish();
      if (task?.kind === "see" && new URLSearchParams(window.location.search).get(task.where) === task.value) finish();
      if (task?.kind === "shown" && [...document.querySelectorAll(task.where)].some((each) => each.offsetParent)) finish();
    }, EVERY);

    return { forget: () => { opened = null; } };
  }

  return { watchTasks };
})());
