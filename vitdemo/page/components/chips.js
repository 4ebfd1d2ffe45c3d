// Filter buttons with counts; a click triggers "pick". The focus survives a redraw.
const { make, newest, notice, received, rove } = vitdemo;
const part = (name) => element.querySelector("." + name);
const place = part("chips");
const buttons = () => [...place.children];
const inARow = () => buttons().filter((button) => button.offsetTop === place.firstElementChild.offsetTop).length;
const settle = rove(place, buttons, inARow, true);
const number = new Intl.NumberFormat("en");
const asked = newest();
let picked = null;

function pick(name) {
  picked = name;
  trigger("pick", asked({ pick: name }));
}

function chip({ pick: name, words, count, pressed, off, spoken }) {
  const made = make(
    "button",
    { type: "button", "data-pick": name, "aria-pressed": String(pressed), "aria-label": spoken, title: off || spoken, disabled: Boolean(off) },
    `${words} `,
    make("b", { text: number.format(count) }),
  );
  made.addEventListener("click", () => pick(name));
  return made;
}

function only(words) {
  const clear = make("button", { type: "button", text: "Clear filters" });
  clear.addEventListener("click", () => pick("clear"));
  return ["Filter: ", make("strong", { text: words }), ". ", clear];
}

function draw() {
  const value = received(props) || {};
  const { chips = [], words = [], sentence } = value;
  const back = picked !== null && element.contains(document.activeElement);
  element.querySelector("h2").textContent = chips.length ? props.title : "";
  element.querySelector("h2").hidden = !chips.length || !props.title;
  place.setAttribute("aria-label", props.group);
  place.replaceChildren(...chips.map(chip));
  part("only").hidden = !value.only;
  part("only").replaceChildren(...(value.only ? only(value.only) : []));
  part("words").replaceChildren(...(sentence ? [notice(sentence)] : []), ...words.map((text) => make("p", { text })));
  const again = buttons().find((button) => button.dataset.pick === picked);
  settle(again ?? buttons().find((button) => button.matches("[aria-pressed=true]")) ?? buttons()[0]);
  if (back) again?.focus({ preventScroll: true });
}
watch("value", draw);
draw();
