// The predictions of each model: the most probable classes, the true class of a test image marked, a
// warning for an image unlike the training images, and one sentence for screen readers.
(() => {
const { fill, html, make, probability } = vitdemo;
const texts = vitdemo.texts.predictions;
const HTML = html`
<div class="answers">
  <div class="cards"></div>
  <p class="read" role="status"></p>
  <div class="problems"></div>
  <details class="notes"><summary>${texts.notes}</summary><div></div></details>
</div>`;

function row(name, share, place, truth) {
  const mark = truth === null ? "" : name === truth ? " ✓" : place === 0 ? " ✗" : "";
  const kind = truth === null ? "" : name === truth ? " true" : place === 0 ? " wrong" : "";
  const bar = make("div", {}, make("i", { style: `width: ${100 * share}%` }));
  const words = make("span", { text: name + mark, title: name === truth ? fill(texts.true_class_title, { name }) : name });
  return make("li", { className: (place === 0 ? "first" : "") + kind }, words, bar, make("b", { text: probability(share) }));
}

function card(model) {
  const rows = model.classes.map((name, i) => row(name, model.probabilities[i], i, model.label));
  const head = make("h2", { title: model.about }, make("span", { text: model.run }), make("small", { text: model.short_accuracy }));
  const unusual = model.unusual ? [make("p", { className: "unusual", text: model.unusual })] : [];
  return make("section", { className: model.unusual ? "card noted" : "card" }, head, make("ul", {}, ...rows), ...unusual);
}

function create(element) {
  element.innerHTML = HTML;
  const part = (name) => element.querySelector("." + name);
  const render = ({ label, models, notes, problems }) => {
    part("cards").replaceChildren(...models.map(card));
    const spoken = models.map(({ run, classes, probabilities, unusual }) => `${run}: ${classes[0]}, ${probability(probabilities[0])}${unusual ? ` (${unusual.replace(/\.$/, "")})` : ""}`);
    part("read").textContent = [`${spoken.join("; ")}.`, ...(label ? [fill(texts.true_class, { label })] : [])].join(" ");
    part("problems").replaceChildren(...problems.map((text) => make("p", { className: "vd-notice", text, role: "status" })));
    part("notes").lastElementChild.replaceChildren(...notes.map((text) => make("p", { text })));
  };
  const showError = (text) => part("problems").replaceChildren(vitdemo.notice(text));
  return { render, showError };
}

vitdemo.store.define("predictions", { needs: ["image"], create });
})();
