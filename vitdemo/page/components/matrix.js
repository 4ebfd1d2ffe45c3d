// Confusion matrix of buttons with arrow-key navigation, next to a list of the largest errors.
// A button triggers the event "pick" with "i-j": the true and the predicted class.
const { csv, make, newest, notice, received, rove, saveText } = vitdemo;
const place = element.querySelector(".all");
const cells = () => [...place.querySelectorAll(".vd-cell")];
const asked = newest();
let [picked, settle] = [null, null];

function pick(name) {
  picked = name;
  trigger("pick", asked({ pick: name.replace("pair-", "") }));
}

function button(name, properties) {
  const made = make("button", { type: "button", "data-pick": name, ...properties });
  made.addEventListener("click", () => pick(name));
  return made;
}

// At most 55% colour, so that the text has a contrast above 5:1 in the light and the dark theme.
const shade = (colour, strength) => `background: color-mix(in srgb, ${colour} ${Math.round(55 * Math.min(strength, 1))}%, transparent)`;

function cell(value, i, j) {
  const [strength, words] = [value.strengths[i][j], value.spoken[i][j]];
  const wrong = strength > 0 ? "#c2410c" : "#7c4fd0"; // orange: positive, purple: negative
  const colour = value.signed || i !== j ? wrong : "#1d4ed8";
  const pressed = String(value.cell?.join("-") === `${i}-${j}`);
  const made = button(`${i}-${j}`, { className: "vd-cell", text: value.texts[i][j], "aria-pressed": pressed, "aria-label": words, title: words });
  return make("td", { style: shade(colour, Math.abs(strength)) }, made);
}

function table(value) {
  const { classes } = value;
  const head = ["true \\ predicted", ...classes].map((text) => make("th", { text, scope: "col" }));
  const rows = classes.map((text, i) => make("tr", {}, make("th", { text, scope: "row" }), ...classes.map((_, j) => cell(value, i, j))));
  const drawn = make("table", { className: "vd-table" }, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows));
  settle = rove(drawn, cells, () => classes.length);
  return make("div", { className: "vd-scroll" }, drawn);
}

function save(value) {
  const made = make("button", { type: "button", className: "vd-download", text: "Download CSV" });
  const rows = [["true \\ predicted", ...value.classes], ...value.classes.map((name, i) => [name, ...value.values[i]])];
  made.addEventListener("click", () => saveText(csv(rows), `${value.file}.csv`, "text/csv"));
  return made;
}

function pairs({ run, pairs }) {
  const items = pairs.map(([name, text]) => make("li", {}, button(`pair-${name}`, { text })));
  const none = make("p", { text: "No image was misclassified." });
  return make("div", { className: "pairs" }, make("h2", { text: `Most confused pairs of ${run}` }), items.length ? make("ol", {}, ...items) : none);
}

function draw() {
  const value = received(props);
  if (!value?.classes) return place.replaceChildren(...(value?.sentence ? [notice(value.sentence)] : []));
  const back = picked !== null && element.contains(document.activeElement);
  const words = value.words.map((text) => make("p", { className: "quiet", text }));
  place.replaceChildren(make("div", {}, table(value), ...words, save(value)), pairs(value));
  const pressed = cells().find((made) => made.matches("[aria-pressed=true]"));
  settle(pressed ?? cells()[0]);
  const again = [...place.querySelectorAll("[data-pick]")].find((made) => made.dataset.pick === picked);
  if (back) again?.focus({ preventScroll: true });
}
watch("value", draw);
draw();
