// The open lesson, and the progress in each lesson, which is saved only in this browser.
import * as store from "../store.js";

const KEY = "vitdemo-lessons"; // key of localStorage; the value maps the name of each lesson to its progress
// Steps count from 0 here: the current step, all completed steps, answers by step, and whether the first answer to
// each question was correct.
const START = { step: 0, done: [], answers: {}, right: {} };

let unsaved = null; // the progress in this window, if it cannot be saved

function readAll() {
  if (unsaved) return unsaved;
  try {
    return JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch {
    return {}; // localStorage is blocked, or its content is damaged
  }
}

export const read = (name) => ({ ...START, ...readAll()[name] });

export function write(name, changes) {
  const all = { ...readAll(), [name]: { ...read(name), ...changes } };
  try {
    localStorage.setItem(KEY, JSON.stringify(all));
  } catch {
    unsaved = all; // localStorage is blocked or full
  }
  store.redraw("lesson_catalog");
}

export const clear = (name) => write(name, START);

// Open a lesson; `teach` is "1" in teach mode, which lasts until the lesson is closed.
export function begin(lesson, step, teach = store.state.teach) {
  leave(); // so that the same lesson also starts again
  store.set({ lesson, step, teach });
}

export const leave = () => store.set({ lesson: "", step: 0, teach: "" });
