// The changed image and its removed patches. A click shows the gap immediately and requests new
// predictions with the event "toggle", which only the user causes.
const { make, rove, saveAs } = vitdemo;
const [image, cells, now] = ["img", ".cells", "small"].map((place) => element.querySelector(place));
const buttons = () => [...cells.children];
let grid = [0, 0];
let unanswered = []; // removed patches before the first unanswered click and after each click since
const settle = rove(cells, buttons, () => grid[1]);

function build(rows, columns) {
  grid = [rows, columns];
  cells.style.gridTemplate = `repeat(${rows}, 1fr) / repeat(${columns}, 1fr)`;
  cells.replaceChildren(...Array.from({ length: rows * columns }, (_, cell) => {
    const label = `Remove row ${Math.floor(cell / columns) + 1}, column ${(cell % columns) + 1}`;
    const button = make("button", { type: "button", "aria-label": label });
    button.addEventListener("click", () => toggle(cell));
    return button;
  }));
  settle(cells.firstElementChild);
}

const press = (removed) => buttons().forEach((button, cell) => button.setAttribute("aria-pressed", String(removed.includes(cell))));

function toggle(cell) {
  if (!props.value?.removed) return; // the canvas is redrawn soon
  const removed = props.value.removed.includes(cell) ? props.value.removed.filter((each) => each !== cell) : [...props.value.removed, cell];
  press(removed);
  if (!unanswered.length) unanswered = [props.value.removed];
  unanswered.push(removed);
  props.value = { ...props.value, removed };
  trigger("toggle");
}

function draw() {
  const value = props.value;
  if (!value?.picture) return;
  if (value.grid.join() !== grid.join()) build(...value.grid);
  // A late response to an earlier click must not restore a patch that a later click removed.
  const at = unanswered.findIndex((removed) => removed.join() === value.removed.join());
  const late = at >= 0 && at < unanswered.length - 1;
  if (late) props.value = { ...value, removed: unanswered.at(-1) };
  else unanswered = [];
  press(props.value.removed);
  image.src = value.picture.url;
  image.alt = `The image that all models receive. Changes: ${value.words}`;
  cells.style.setProperty("--hole", value.hole);
  now.textContent = `Current changes: ${value.words}.`;
}
element.querySelector(".save").addEventListener("click", () => props.value?.picture && saveAs(props.value.picture.url, "changed.png"));
watch("value", draw);
draw();
