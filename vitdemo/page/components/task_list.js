// List of tasks. Only changed lines are redrawn, so that a focused or hovered button stays in place.
const { make, newest, received } = vitdemo;
const list = element.querySelector("ul");
const wish = newest();
const lines = new Map(); // name -> {text: JSON of its value, item: element}
let asking = null; // name of the task whose deletion needs confirmation

function act(action, name) {
  asking = null;
  trigger("act", wish({ action, name }));
}

function button(text, label, clicked) {
  const made = make("button", { type: "button", text, "aria-label": label });
  made.addEventListener("click", clicked);
  return made;
}

function buttons({ name, title, actions }) {
  if (asking === name)
    return [make("span", { className: "words", text: "Delete the run folder permanently?" }),
      button("Delete", `Delete ${title || name} permanently`, () => act("discard", name)),
      button("Cancel", `Do not delete ${title || name}`, () => { asking = null; draw(); })];
  return actions.map(([action, label]) => button(label, `${label}: ${title || name}`, () => {
    if (action !== "discard") return act(action, name);
    asking = name;
    draw();
    lines.get(name).item.querySelector("button").focus();
  }));
}

function drawn(row) {
  const line = make("div", { className: "line" }, make("strong", { text: row.title || row.name, title: row.title ? row.name : null }),
    make("span", { className: `state ${row.state}`, text: row.state }), make("span", { className: "words", text: row.words }),
    make("div", { className: "buttons" }, ...buttons(row)));
  const percent = Math.round(100 * row.done);
  const bar = make("div", { className: "bar", role: "progressbar", "aria-label": `Progress of ${row.title || row.name}`,
    "aria-valuenow": percent, "aria-valuemin": 0, "aria-valuemax": 100 }, make("i", { style: `width: ${percent}%` }));
  return make("li", {}, line, row.note ? make("p", { className: "note", text: row.note }) : null, row.done < 1 ? bar : null);
}

function draw() {
  const rows = received(props) || [];
  element.querySelector(".none").textContent = rows.length ? "" : props.empty;
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
  if (items.length !== list.children.length || items.some((item, i) => item !== list.children[i])) list.replaceChildren(...items);
  for (const line of lines.values()) {
    if (line.focused) [...line.item.querySelectorAll("button")].find((one) => one.ariaLabel === line.focused)?.focus({ preventScroll: true });
    line.focused = null;
  }
}
watch("value", draw);
draw();
