// The predictions of each model: the most probable classes, the true class of a test image marked, a
// warning for an image unlike the training images, and one sentence for screen readers.
const { make, probability, received } = vitdemo;
const part = (name) => element.querySelector("." + name);

function row(name, share, place, truth) {
  const mark = truth === null ? "" : name === truth ? " ✓" : place === 0 ? " ✗" : "";
  const kind = truth === null ? "" : name === truth ? " true" : place === 0 ? " wrong" : "";
  const bar = make("div", {}, make("i", { style: `width: ${100 * share}%` }));
  const words = make("span", { text: name + mark, title: name === truth ? `${name}: the true class` : name });
  return make("li", { className: (place === 0 ? "first" : "") + kind }, words, bar, make("b", { text: probability(share) }));
}

function card(model) {
  const rows = model.classes.map((name, i) => row(name, model.probabilities[i], i, model.label));
  const head = make("h2", { title: model.about }, make("span", { text: model.run }), make("small", { text: model.accuracy.replace(/^(\S+) (?:test|(cross-validated)) accuracy$/, (_, value, how) => `${how ?? "accuracy"} ${value}`) }));
  const unusual = model.unusual ? [make("p", { className: "unusual", text: model.unusual })] : [];
  return make("section", { className: model.unusual ? "card noted" : "card" }, head, make("ul", {}, ...rows), ...unusual);
}

function draw() {
  const value = received(props);
  if (!value) return;
  const truth = value.label;
  part("cards").replaceChildren(...value.models.map(card));
  const spoken = value.models.map(({ run, classes, probabilities, unusual }) => `${run}: ${classes[0]}, ${probability(probabilities[0])}${unusual ? ` (${unusual.replace(/\.$/, "")})` : ""}`);
  part("read").textContent = `${spoken.join("; ")}.${truth ? ` True class: ${truth}.` : ""}`;
  part("problems").replaceChildren(...value.problems.map((text) => make("p", { className: "vd-notice", text, role: "status" })));
  part("notes").lastElementChild.replaceChildren(...value.notes.map((text) => make("p", { text })));
}
watch("value", draw);
draw();
