// Test images as buttons with the models' predictions, or a table if the images are not available.
// A click triggers "pick" with the image number; the two buttons below trigger "turn".
const { make, newest, notice, probability, received, rove, table } = vitdemo;
const part = (name) => element.querySelector("." + name);
const place = part("pictures");
const wanted = part("wanted").querySelector("input");
const buttons = () => [...place.querySelectorAll("button")];
const columns = () => getComputedStyle(place).gridTemplateColumns.split(" ").length;
const settle = rove(place, buttons, columns, true);
const number = new Intl.NumberFormat("en");

// Number of images and the visible range; screen readers read it out when it changes.
function head({ count, start, page }) {
  const words = count === 0 ? "No image" : count === 1 ? "1 image" : `${number.format(count)} images`;
  const span = count > page ? `, ${number.format(start + 1)} to ${number.format(Math.min(start + page, count))} shown` : "";
  const key = count ? ". Captions: true class → predicted class, and confidence" : "";
  part("found").replaceChildren(words + span, make("small", { text: key }));
}

function button(picture, at, value, names) {
  const { true: truth, answers } = picture;
  const [predicted, confidence] = answers[value.models.indexOf(value.model)];
  const lines = names.map((name) => {
    const [said, share] = answers[value.models.indexOf(name)];
    return `${name}: ${said}${said === truth ? " ✓" : ""} ${probability(share)}`;
  });
  const rows = Math.ceil(value.pictures.length / value.columns);
  const along = (place, all) => (all > 1 ? (100 * place) / (all - 1) : 0);
  const [x, y] = [along(at % value.columns, value.columns), along(Math.floor(at / value.columns), rows)];
  const style = `background-image: url("${value.sheet.url}"); background-size: ${100 * value.columns}% ${100 * rows}%; background-position: ${x}% ${y}%`;
  const named = predicted === truth ? "classified correctly" : `predicted as ${predicted}`;
  const spoken = [`Test image ${picture.number}: ${truth}, ${named} by ${value.model} with ${probability(confidence)} confidence`, ...lines, "Open in Explore."];
  const made = make(
    "button",
    { type: "button", "aria-label": spoken.join(". "), "data-pick": picture.number },
    make("span", { className: "thumb", style, title: `Test image ${picture.number}` }),
    make("b", { text: predicted === truth ? `${truth} ✓` : `${truth} → ${predicted}` }),
    make("span", { text: probability(confidence) }),
    ...lines.map((text) => make("small", { text })),
  );
  made.addEventListener("click", () => trigger("pick", { pick: String(picture.number) }));
  return made;
}

function listed({ model, models, pictures }) {
  const names = [model, ...models.filter((name) => name !== model)];
  const words = ([predicted, share]) => `${predicted} ${probability(share)}`;
  const row = ({ number, true: truth, answers }) => [number, truth, ...names.map((name) => words(answers[models.indexOf(name)]))];
  return table({ columns: ["Test image", "True class", ...names], rows: pictures.map(row) });
}

function draw() {
  const value = received(props) || {};
  const { pictures = [], sentence } = value;
  part("top").hidden = !props.value;
  part("wanted").hidden = !value.sheet;
  const paged = value.count > value.page;
  part("turns").hidden = !paged;
  part("earlier").disabled = !(value.start > 0);
  part("later").disabled = !(value.start + value.page < value.count);
  if (value.models) head(value);
  else part("found").replaceChildren();
  const names = wanted.checked ? value.models : value.compared;
  const shown = value.sheet ? pictures.map((picture, i) => button(picture, i, value, names)) : pictures.length ? [listed(value)] : [];
  place.className = ["pictures", value.sheet ? "" : "listed", names?.length ? "wide" : "", value.pixels ? "pixels" : ""].join(" ");
  place.replaceChildren(...(sentence ? [notice(sentence)] : []), ...shown);
  settle(buttons()[0]);
}

const turned = newest();
function turn(pages) {
  const { start, page } = received(props);
  trigger("turn", turned({ pick: String(start + pages * page) }));
}
part("earlier").addEventListener("click", () => turn(-1));
part("later").addEventListener("click", () => turn(1));
wanted.addEventListener("change", draw);
watch("value", draw);
draw();
