// Rows of tasks (training runs, downloads) with state, progress and buttons; see task_list.py. Each task has its own
// element, so that a focused or hovered button stays in place.
import { markup, nothing, render } from "../markup.js";
import { fill, TEXTS } from "../texts.js";
import { newest } from "./shared.js";

const texts = TEXTS.task_rows;

function progressBar({ done, name, title }) {
  const percent = Math.round(100 * done);
  return markup`<div class="bar" role="progressbar" aria-label=${
    fill(texts.progress, { task: title || name })
  }
    aria-valuenow=${percent} aria-valuemin="0" aria-valuemax="100"><i style="width: ${percent}%"></i></div>`;
}

// Return a function that draws rows in `root`, or the text `empty` without rows. A pressed button calls
// `act({ action, name })`; the action "discard" asks for confirmation.
export function taskRowsIn(root, empty, act) {
  const wish = newest();
  const items = new Map(); // the element of each task, by name
  let rows = [];
  let asking = null; // name of the task whose deletion needs confirmation

  function choose(action, name) {
    asking = null;
    act(wish({ action, name }));
  }

  function ask(name, isAsked) {
    asking = isAsked ? name : null;
    draw(rows);
    items.get(name).querySelector(isAsked ? "button" : "button:last-child").focus();
  }

  const button = (text, label, click) =>
    markup`<button type="button" aria-label=${label} @click=${click}>${text}</button>`;

  function buttons({ name, title, actions }) {
    const task = title || name;
    if (asking === name) {
      return markup`<span class="words">${texts.confirm}</span>${
        button(texts.delete, fill(texts.delete_task, { task }), () => choose("discard", name))
      }${button(TEXTS.task_panel.cancel, fill(texts.keep_task, { task }), () => ask(name, false))}`;
    }
    return actions.map(([action, label]) =>
      button(
        label,
        `${label}: ${task}`,
        () => (action === "discard" ? ask(name, true) : choose(action, name)),
      )
    );
  }

  function itemOf(row) {
    const { name, title, state, words, note, done } = row;
    if (!items.has(name)) items.set(name, document.createElement("li"));
    render(
      markup`<div class="line"><strong title=${title ? name : nothing}>${title || name}</strong>
          <span class="state ${state}">${state}</span><span class="words">${words}</span>
          <div class="buttons">${buttons(row)}</div></div>
        ${note ? markup`<p class="note">${note}</p>` : nothing}${done < 1 ? progressBar(row) : nothing}`,
      items.get(name),
    );
    return items.get(name);
  }

  function draw(value) {
    rows = value;
    for (const name of items.keys()) if (!rows.some((row) => row.name === name)) items.delete(name);
    const focused = document.activeElement;
    render(markup`<p class="none">${rows.length ? "" : empty}</p><ul>${rows.map(itemOf)}</ul>`, root);
    if (root.contains(focused)) focused.focus({ preventScroll: true }); // a moved element loses the focus
  }

  root.classList.add("vd-tasks");
  return draw;
}
