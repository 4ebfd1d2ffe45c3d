// Detects anywhere on the page that the user has done a lesson's task: see vitdemo/lessons/__init__.py.
import * as store from "../../store.js";

const LARGE_MAP = "#attention .large"; // the place of the task "point"
const EVERY = 300; // milliseconds between checks of the address and of new elements
const LIST = "input[role=combobox]"; // gradio's dropdown, which is not a <select>
const numeric = { ">=": (a, b) => a >= b, "<=": (a, b) => a <= b, "=": (a, b) => a === b };
const findContainer = (target, where) => target instanceof Element && target.closest(where);
const getText = (label) => label?.textContent.trim();

// The place of a task on the page, as a CSS selector; "": the task has no place.
export const getPlace = (task) =>
  !task || task.kind === "see" ? "" : task.kind === "point" ? LARGE_MAP : task.where;

// Call `finish` when the task returned by `getTask()` (null: no task) is done. A choice from a dropdown counts when the
// list closes and shows the value of the task, or any other value if the task has none.
export function watchTasks(getTask, finish) {
  let opened = null; // {list, value} before the user opened the list

  document.addEventListener("click", ({ target }) => {
    const task = getTask();
    if (!["press", "choose"].includes(task?.kind) || !findContainer(target, task.where)) return;
    const chosen = getText(target.closest("label")); // label of a radio button
    if (task.kind === "press") finish();
    if (task.kind === "choose" && chosen && (!task.value || chosen === task.value)) finish();
  }, true);

  for (const kind of ["pointerdown", "keydown"]) {
    document.addEventListener(kind, ({ target }) => {
      const list = getTask()?.kind === "choose" &&
        findContainer(target, getTask().where)?.querySelector(LIST);
      if (list && opened?.list !== list) opened = { list, value: list.value };
    }, true);
  }

  function isChosen({ where, value }) {
    const list = document.querySelector(`${where} ${LIST}`);
    if (!list || opened?.list !== list || list.getAttribute("aria-expanded") === "true") return false;
    return value ? list.value === value : list.value !== opened.value;
  }

  for (const kind of ["input", "change"]) {
    document.addEventListener(kind, ({ target }) => {
      const task = getTask();
      if (!task || !findContainer(target, task.where || "*") || target.matches(LIST)) return;
      if (task.kind === "set" && numeric[task.op](Number(target.value), Number(task.value))) finish();
      const chosen = getText(target.selectedOptions?.[0]) ?? target.value;
      if (task.kind === "choose" && (!task.value || [chosen, target.value].includes(task.value))) finish();
    }, true);
  }

  document.addEventListener("vitdemo:drawn", ({ detail }) => {
    if (getTask()?.kind === "point" && /^\d+,\d+$/.test(detail.token)) finish(); // the token is a patch
  });

  setInterval(() => {
    const task = getTask();
    if (task?.kind === "choose" && isChosen(task)) finish();
    const value = task?.kind === "set" && document.querySelector(task.where)?.ariaValueNow;
    if (value && numeric[task.op](Number(value), Number(task.value))) finish();
    if (task?.kind === "see" && store.getParameter(task.where) === task.value) finish();
    if (
      task?.kind === "shown" && [...document.querySelectorAll(task.where)].some((each) => each.offsetParent)
    ) finish();
  }, EVERY);

  return {
    forget: () => {
      opened = null;
    },
  };
}
