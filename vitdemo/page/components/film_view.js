// Shows the epochs of an animation (see film_view.py) one at a time, without requests to the server.
const { make, paint, probability, received } = vitdemo;
const part = (name) => element.querySelector("." + name);
const [at, layer] = ["at", "layer"].map((name) => part(name).querySelector("input"));
const canvas = element.querySelector("canvas");
const FRAME = 700; // milliseconds per epoch
let film = null;
let timer = null;


function bar(name, share, predicted) {
  const mark = film.label === null ? "" : name === film.label ? " true" : " wrong";
  const words = name + (name === film.label ? " ✓" : "");
  return make("li", { className: (name === predicted ? "first" : "") + mark }, make("span", { text: words, title: name }),
    make("div", {}, make("i", { style: `width: ${100 * share}%` })), make("b", { text: probability(share) }));
}

function show() {
  const [i, l] = [Number(at.value), Number(layer.value)];
  const [epoch, predicted] = [film.epochs[i], film.predicted[i]];
  paint(canvas, film.maps[i][l - 1], film.grid);
  part("when").textContent = `${film.run} after epoch ${epoch}: ${predicted}`;
  element.querySelector("ul").replaceChildren(...film.classes.map((name, c) => bar(name, film.shares[i][c], predicted)));
  part("at").querySelector("span").textContent = `Epoch ${epoch} of ${film.epochs.at(-1)}`;
  part("layer").querySelector("span").textContent = `Layer ${l} of ${film.layers}`;
  at.setAttribute("aria-valuetext", `epoch ${epoch}: ${predicted}`);
  element.querySelector("img").alt = `Attention of ${film.run} after epoch ${epoch}, layer ${l}, mean of the heads`;
}

function stop() {
  clearInterval(timer);
  timer = null;
  part("play").textContent = "Play";
}

function play() {
  if (timer) return stop();
  if (Number(at.value) >= Number(at.max)) at.value = 0;
  else at.value = Number(at.value) + 1;
  show();
  part("play").textContent = "Stop";
  timer = setInterval(() => {
    if (!element.isConnected || Number(at.value) >= Number(at.max)) return stop();
    at.value = Number(at.value) + 1;
    show();
  }, FRAME);
}

function draw() {
  const value = received(props) || {};
  part("sentence").textContent = value.sentence ?? "";
  part("sentence").hidden = !value.sentence;
  for (const name of ["screen", "controls"]) part(name).hidden = !value.epochs;
  if (!value.epochs) return stop();
  // If the last epoch or another run was shown, jump to the newest epoch.
  const follows = film?.run !== value.run || (Number(at.value) === Number(at.max) && !timer);
  const deepest = film?.run !== value.run || layer.value === layer.max;
  film = value;
  element.querySelector("img").src = value.seen.url;
  [at.max, layer.max] = [value.epochs.length - 1, value.layers];
  if (follows) at.value = at.max;
  if (deepest) layer.value = layer.max;
  part("learned").textContent = value.words;
  part("play").disabled = value.epochs.length < 2;
  show();
}
for (const input of [at, layer]) input.addEventListener("input", () => { if (input === at) stop(); show(); });
part("play").addEventListener("click", play);
watch("value", draw);
draw();
