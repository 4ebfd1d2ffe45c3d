// A person's own classes: names, pictures (files, a folder, a zip, the camera), and taking each back. Every
// step is one event "ask" with { what, ... }, of an object of its own: none may be lost.
const { camera, make, received, redraw } = vitdemo;
const part = (name) => element.querySelector("." + name);
const [screen, video] = [part("screen"), element.querySelector("video")];
const MOST = 60e6; // bytes of a file, as the server's
const MOST_FILES = 500; // of a folder, as many as a collection has
const EACH = 250; // milliseconds between two pictures of the camera
let taken = null; // name of the class that the camera takes pictures for
let timer = null;

const say = (text) => (part("say").textContent = text);
const ask = (what, rest = {}) => trigger("ask", { what, ...rest });

// What was chosen; the same may be chosen again.
function chosen(input) {
  const files = [...input.files];
  input.value = "";
  return files;
}

// `rest`: what else is asked, of the files that are sent. A class goes by its name, which stays its own while
// others are taken away.
async function send(files, what, rest = () => ({})) {
  const small = files.filter((file) => file.size <= MOST);
  if (small.length < files.length) say(`Files over ${MOST / 1e6} MB were left out.`);
  const paths = [];
  for (const file of small) {
    say(`${paths.length + 1} of ${small.length} files on their way …`);
    try {
      paths.push((await upload(file)).path);
    } catch {
      return say("The files could not be sent: the server does not answer, or has no room. What is shown stays.");
    }
  }
  say("");
  if (paths.length) ask(what, { paths, ...rest(small) });
}

// Whether a system left the file, or a folder on its way: the server has the full rule.
function isSystemFile({ webkitRelativePath }) {
  const system = received(props)?.system || [];
  return webkitRelativePath.split("/").some((part) => /^(\.|~\$)/.test(part) || system.includes(part.toLowerCase()));
}

// The class of a file of a folder is the folder that it lies in.
function sendFolder(files) {
  const shown = files.filter((file) => !isSystemFile(file));
  if (shown.length > MOST_FILES) return say(`That folder has ${shown.length} files; ${MOST_FILES} are the most.`);
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
  screen.hidden = false; // what is hidden does not play everywhere
  if (!(await live.open())) return leave();
  taken = name;
  part("take").focus();
}

let shots = [];
function shoot() {
  const name = `camera-${Date.now()}.jpg`;
  shots.push(live.still("image/jpeg").then((blob) => new File([blob], name, { type: blob.type })));
  say(`${shots.length} taken`);
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
  const name = taken; // of these shots, whatever is opened while they are on their way
  await send(await Promise.all(shots), "pictures", () => ({ name }));
}

// --- what is there ---

function picture({ name }, index, i) {
  const button = make("button", { type: "button", "data-pick": `${index}.${i}`, style: `--at: ${i}`, "aria-label": `Remove picture ${i + 1} of ${name}` });
  button.addEventListener("click", () => ask("remove", { name, picture: i }));
  return button;
}

function row(own, index) {
  const files = make("input", { type: "file", multiple: true, accept: received(props).accept, "aria-label": `Add pictures of ${own.name}` });
  files.addEventListener("change", () => { send(chosen(files), "pictures", () => ({ name: own.name })); });
  const camera = make("button", { type: "button", text: "Camera", "data-pick": `camera ${index}` });
  camera.addEventListener("click", () => open(own.name));
  const remove = make("button", { type: "button", text: "Remove the class", "data-pick": `remove ${index}` });
  remove.addEventListener("click", () => ask("remove", { name: own.name }));
  const thumbs = make("div", { className: "thumbs" }, ...Array.from({ length: own.count }, (_, i) => picture(own, index, i)));
  if (own.sheet) thumbs.style.setProperty("--sheet", `url("${own.sheet.url}")`);
  const count = make("small", { text: `${own.count} picture${own.count === 1 ? "" : "s"}` });
  const add = make("label", { className: "file" }, files, make("span", { text: "Add pictures" }));
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

// They go with the page.
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
