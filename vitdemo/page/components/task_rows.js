// Rows of tasks (training runs, downloads) with state, progress and buttons; see task_list.py. Only changed rows are
// redrawn, so that a focused or hovered button stays in place.
import { fill, TEXTS } from "../texts.js";
import { make, newest } from "./shared.js";

const texts = TEXTS.task_rows;

// Return a function that draws rows in `root`, or the text `empty` without rows. A pressed button calls
// `act({ action, name })`; the action "discard" asks for confirmation.
export function taskRowsIn(root, empty, act) {
  const none = make("p", { className: "none" });
  const list = make("ul");
  const wish = newest();
  const lines = new Map(); // name -> { text: JSON of its row, item: element, focused: label of a button }
  let rows = [];
  let asking = null; // name of the task whose deletion needs confirmation

  function choose(action, name) {
    asking = null;
    act(wish({ action, name }));
  }

  function button(text, label, clicked) {
    const made = make("button", { type: "button", text, "aria-label": label });
    made.addEventListener("click", clicked);
    return made;
  }

  function buttons({ name, title, actions }) {
    if (asking === name) {
      return [
        make("span", { className: "words", text: texts.confirm }),
        button(texts.delete, fill(texts.delete_task, { task: title || name }), () => choose("discard", name)),
        button(TEXTS.task_panel.cancel, fill(texts.keep_task, { task: title || name }), () => {
          asking = null;
          draw(rows);
        }),
      ];
    }
    return actions.map(([action, label]) =>
      button(label, `${label}: ${title || name}`, () => {
        if (action !== "discard") return choose(action, name);
        asking = name;
        draw(rows);
        lines.get(name).item.querySelector("button").focus();
      })
    );
  }

  function drawn(row) {
    const line = make(
      "div",
      { className: "line" },
      make("strong", { text: row.title || row.name, title: row.title ? row.name : null }),
      make("span", { className: `state ${row.state}`, text: row.state }),
      make("span", { className: "words", text: row.words }),
      make("div", { className: "buttons" }, ...buttons(row)),
    );
    const percent = Math.round(100 * row.done);
    const bar = make("div", {
      className: "bar",
      role: "progressbar",
      "aria-label": fill(texts.progress, { task: row.title || row.name }),
      "aria-valuenow": percent,
      "aria-valuemin": 0,
      "aria-valuemax": 100,
    }, make("i", { style: `width: ${percent}%` }));
    return make(
      "li",
      {},
      line,
      row.note ? make("p", { className: "note", text: row.note }) : null,
      row.done < 1 ? bar : null,
    );
  }

  function draw(value) {
    rows = value;
    none.textContent = rows.length ? "" : empty;
    const items = rows.map((row) => {
      const text = JSON.stringify([row, asking === row.name]);
      const before = lines.get(row.name);
      if (before?.text === text) return before.item;
      const focused = before?.item.contains(document.activeElement) ? document.activeElement.ariaLabel : null;
      const item = drawn(row);
      lines.set(row.name, { text, item, focused });
      return item;
    });
    for (const name of lines.keys()) if (!rows.some((row) => row.name === name)) lines.delete(name);
    if (items.length !== list.children.length || items.some((item, i) => item !== list.children[i])) {
      list.replaceChildren(...items);
    }
    for (const line of lines.values()) {
      if (line.focused) {
        [...line.item.querySelectorAll("button")].find((one) => one.ariaLabel === line.focused)?.focus({
          preventScroll: true,
        });
      }
      line.focused = null;
    }
  }

  root.classList.add("vd-tasks");
  root.replaceChildren(none, list);
  return draw;
}
