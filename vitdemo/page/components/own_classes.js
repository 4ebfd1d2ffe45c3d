// Custom classes and their images, added as files, as a folder or zip, or with the camera. Each step sends
// one event "ask" with a new object { what, ... }, so that no step is lost.
const { camera, make, received, redraw } = vitdemo;
const part = (name) => element.querySelector("." + name);
const [screen, video] = [part("screen"), element.querySelector("video")];
const MOST = 60e6; // bytes per file; the server has the same limit
const MOST_FILES = 500; // per folder; the limit of a collection
const EACH = 250; // milliseconds between two camera photos
let taken = null; // name of the class that camera photos are added to
let timer = null;

const say = (text) => (part("say").textContent = text);
const ask = (what, rest = {}) => trigger("ask", { what, ...rest });

// Return the chosen files. The value is cleared so that the same files can be chosen again.
function chosen(input) {
  const files = [...input.files];
  input.value = "";
  return files;
}

// Upload the files, then ask with their paths and `rest(files)`. The request names the class, because an index
// changes when another class is removed.
async function send(files, what, rest = () => ({})) {
  const small = files.filter((file) => file.size <= MOST);
  if (small.length < files.length) say(`Files larger than ${MOST / 1e6} MB were skipped.`);
  const paths = [];
  for (const file of small) {
    say(`Uploading file ${paths.length + 1} of ${small.length} …`);
    try {
      paths.push((await upload(file)).path);
    } catch {
      return say("The upload failed: the server does not respond, or its disk is full. No files were added. Try again later.");
    }
  }
  say("");
  if (paths.length) ask(what, { paths, ...rest(small) });
}

// Return whether the file or one of its folders is a system file. The server applies the complete rule.
function isSystemFile({ webkitRelativePath }) {
  const system = received(props)?.system || [];
  return webkitRelativePath.split("/").some((part) => /^(\.|~\$)/.test(part) || system.includes(part.toLowerCase()));
}

// Upload a folder. The class of a file is the folder that contains it.
function sendFolder(files) {
  const shown = files.filter((file) => !isSystemFile(file));
  if (shown.length > MOST_FILES) return say(`The folder has ${shown.length} files, and the limit is ${MOST_FILES}. Choose a smaller folder.`);
  return send(shown, "folder", (sent) => ({ names: sent.map((file) => file.webkitRelativePath.split("/").slice(0, -1).join("/")) }));
}

// --- camera ---

const live = camera(video, say);

function leave() {
  clearInterval(timer);
  timer = null;
  live.close();
  screen.hidden = true;
}

async function open(name) {
  screen.hidden = false; // Some browsers do not play hidden videos.
  if (!(await live.open())) return leave();
  taken = name;
  part("take").focus();
}

let shots = [];
function shoot() {
  const name = `camera-${Date.now()}.jpg`;
  shots.push(live.still("image/jpeg").then((blob) => new File([blob], name, { type: blob.type })));
  say(`${shots.length} photo${shots.length === 1 ? "" : "s"} taken`);
}

function hold() {
  if (timer) return;
  shots = [];
  shoot();
  timer = setInterval(shoot, EACH);
}

async function release() {
  if (!timer) return;
  clearInterval(timer);
  timer = null;
  const name = taken; // saved now, because the user may open the camera for another class during the upload
  await send(await Promise.all(shots), "pictures", () => ({ name }));
}

// --- list of classes ---

function picture({ name }, index, i) {
  const button = make("button", { type: "button", "data-pick": `${index}.${i}`, style: `--at: ${i}`, "aria-label": `Remove image ${i + 1} of ${name}` });
  button.addEventListener("click", () => ask("remove", { name, picture: i }));
  return button;
}

function row(own, index) {
  const files = make("input", { type: "file", multiple: true, accept: received(props).accept, "aria-label": `Add images of ${own.name}` });
  files.addEventListener("change", () => { send(chosen(files), "pictures", () => ({ name: own.name })); });
  const camera = make("button", { type: "button", text: "Open camera", "data-pick": `camera ${index}` });
  camera.addEventListener("click", () => open(own.name));
  const remove = make("button", { type: "button", text: "Remove class", "data-pick": `remove ${index}` });
  remove.addEventListener("click", () => ask("remove", { name: own.name }));
  const thumbs = make("div", { className: "thumbs" }, ...Array.from({ length: own.count }, (_, i) => picture(own, index, i)));
  if (own.sheet) thumbs.style.setProperty("--sheet", `url("${own.sheet.url}")`);
  const count = make("small", { text: `${own.count} image${own.count === 1 ? "" : "s"}` });
  const add = make("label", { className: "file" }, files, make("span", { text: "Add images" }));
  return make("section", { className: "own", "aria-label": own.name }, make("header", {}, make("h2", { text: own.name }), count, add, camera, remove), thumbs);
}

function draw() {
  const value = received(props) || {};
  const classes = value.classes || [];
  if (taken !== null && !classes.some(({ name }) => name === taken)) leave();
  say(value.words ?? "");
  part("problems").replaceChildren(...(value.problems || []).map((text) => make("li", { text })));
  part("undo").disabled = !value.undo;
  redraw(part("list"), ...classes.map(row));
}

// The images are lost when the page is closed, so the browser asks first.
window.addEventListener("beforeunload", (event) => {
  if ((received(props)?.classes || []).some(({ count }) => count)) event.preventDefault();
});
part("add").addEventListener("submit", (event) => {
  event.preventDefault();
  ask("class", { name: part("name").value });
  part("name").value = "";
});
part("zip").addEventListener("change", () => send(chosen(part("zip")), "zip"));
part("folder").addEventListener("change", () => sendFolder(chosen(part("folder"))));
part("undo").addEventListener("click", () => ask("undo"));
part("tests").addEventListener("click", () => ask("tests"));
part("leave").addEventListener("click", leave);
for (const name of ["pointerdown", "keydown"]) part("take").addEventListener(name, (event) => { if (!event.key || event.key === " ") hold(); });
for (const name of ["pointerup", "pointerleave", "keyup", "blur"]) part("take").addEventListener(name, release);
watch("value", draw);
draw();
