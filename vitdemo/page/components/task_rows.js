// Rows of tasks (training runs, downloads) with state, progress and buttons; see task_list.py. Each task and each of
// its actions has its own element: if the actions change during a click, no other action is pressed.
import { markup, nothing, render } from "../markup.js";
import { CANCEL } from "../texts.js";

function drawProgressBar({ done, name, title }) {
  const percent = Math.round(100 * done);
  return markup`<div class="bar" role="progressbar" aria-label="Progress of ${title || name}"
    aria-valuenow=${percent} aria-valuemin="0" aria-valuemax="100"><i style="width: ${percent}%"></i></div>`;
}

// Return a function that draws rows in `root`, or the text `empty` without rows. A pressed button calls
// `act({ action, name })`; the action "discard" asks for confirmation.
export function createTaskRows(root, empty, act) {
  const items = new Map(); // { element, buttons (by action) } of each task, by name
  let rows = [];
  let asking = null; // name of the task whose deletion needs confirmation

  function choose(action, name) {
    asking = null;
    act({ action, name });
  }

  function ask(name, isAsked) {
    asking = isAsked ? name : null;
    draw(rows);
    items.get(name).element.querySelector(isAsked ? "button" : "button:last-child").focus();
  }

  // The button of an action; `label` is its accessible name.
  function updateButton(name, action, text, label, click) {
    const { buttons } = items.get(name);
    const made = buttons.get(action) ?? document.createElement("button");
    if (!buttons.has(action)) Object.assign(made, { type: "button", onclick: click });
    buttons.set(action, made);
    return Object.assign(made, { textContent: text, ariaLabel: label });
  }

  function drawButtons({ name, title, actions }) {
    const task = title || name;
    if (asking === name) {
      const confirm = `Delete ${task} permanently`;
      const keep = `Do not delete ${task}`;
      return markup`<span class="words">Delete the run folder permanently?</span>${
        updateButton(name, "confirm", "Delete", confirm, () => choose("discard", name))
      }${updateButton(name, "keep", CANCEL, keep, () => ask(name, false))}`;
    }
    return actions.map(([action, label]) =>
      updateButton(
        name,
        action,
        label,
        `${label}: ${task}`,
        () => (action === "discard" ? ask(name, true) : choose(action, name)),
      )
    );
  }

  function drawItem(row) {
    const { name, title, colour, state, progress, note, done } = row;
    if (!items.has(name)) items.set(name, { element: document.createElement("li"), buttons: new Map() });
    const { element } = items.get(name);
    render(
      markup`<div class="line">${
        colour ? markup`<i class="colour" style="background: ${colour}"></i>` : nothing
      }<strong title=${title ? name : nothing}>${title || name}</strong>
          <span class="state ${state}">${state}</span><span class="words">${progress}</span>
          <div class="buttons">${drawButtons(row)}</div></div>
        ${note ? markup`<p class="note">${note}</p>` : nothing}${done < 1 ? drawProgressBar(row) : nothing}`,
      element,
    );
    return element;
  }

  function draw(value) {
    rows = value;
    for (const name of items.keys()) if (!rows.some((row) => row.name === name)) items.delete(name);
    const focused = document.activeElement;
    render(markup`<p class="none">${rows.length ? "" : empty}</p><ul>${rows.map(drawItem)}</ul>`, root);
    if (root.contains(focused)) focused.focus({ preventScroll: true }); // a moved element loses the focus
  }

  root.classList.add("vd-tasks");
  return draw;
}
