// The predictions: the chosen model's first, with its classes, then each other model's in one line that can be opened.
// The true class of a test image is marked, and an image unlike the training images has a warning. One sentence is for
// screen readers.
import { make, notice, probability } from "../../components/shared.js";
import * as store from "../../store.js";
import { fill, html, TEXTS } from "../../texts.js";

const texts = TEXTS.predictions;
const HTML = html`
  <div class="answers">
    <div class="cards"></div>
    <p class="read" role="status"></p>
    <div class="problems"></div>
    <details class="notes">
      <summary>${texts.notes}</summary>
      <div></div>
    </details>
  </div>
`;

function row(name, share, place, truth) {
  const mark = truth === null ? "" : name === truth ? " ✓" : place === 0 ? " ✗" : "";
  const kind = truth === null ? "" : name === truth ? " true" : place === 0 ? " wrong" : "";
  const bar = make("div", {}, make("i", { style: `width: ${100 * share}%` }));
  const words = make("span", {
    text: name + mark,
    title: name === truth ? fill(texts.true_class_title, { name }) : name,
  });
  return make(
    "li",
    { className: (place === 0 ? "first" : "") + kind },
    words,
    bar,
    make("b", { text: probability(share) }),
  );
}

const rows = (model) =>
  make("ul", {}, ...model.classes.map((name, i) => row(name, model.probabilities[i], i, model.label)));
const warning = ({ unusual }) => (unusual ? [make("p", { className: "unusual", text: unusual })] : []);
const foot = (model) => make("p", { className: "known" }, model.known, make("br"), model.accuracy);

function chosenCard(model) {
  const head = make("h2", { title: model.about }, make("span", { text: model.run }));
  return make("section", { className: "card chosen" }, head, rows(model), ...warning(model), foot(model));
}

function otherCard(model, isOpen) {
  const kind = model.label === null ? "" : model.classes[0] === model.label ? "true" : "wrong";
  const best = make("b", {
    className: kind,
    text: `${model.classes[0]} ${probability(model.probabilities[0])}`,
  });
  const head = make(
    "summary",
    { title: model.about },
    make("h2", {}, make("span", { text: model.run }), best),
  );
  return make(
    "details",
    { className: "card", open: isOpen, "data-run": model.run },
    head,
    rows(model),
    ...warning(model),
    foot(model),
  );
}

function create(element) {
  element.innerHTML = HTML;
  const part = (name) => element.querySelector("." + name);
  const render = ({ label, models, notes, problems }, state) => {
    const open = [...element.querySelectorAll("details.card[open]")].map((each) => each.dataset.run);
    const chosen = models.filter(({ run }) => run === state.model);
    const others = models.filter(({ run }) => run !== state.model);
    part("cards").replaceChildren(
      ...chosen.map(chosenCard),
      ...others.map((model) => otherCard(model, open.includes(model.run))),
    );
    const spoken = models.map(({ run, classes, probabilities, unusual }) =>
      `${run}: ${classes[0]}, ${probability(probabilities[0])}${
        unusual ? ` (${unusual.replace(/\.$/, "")})` : ""
      }`
    );
    part("read").textContent = [
      `${spoken.join("; ")}.`,
      ...(label ? [fill(texts.true_class, { label })] : []),
    ].join(" ");
    part("problems").replaceChildren(
      ...problems.map((text) => make("p", { className: "vd-notice", text, role: "status" })),
    );
    part("notes").lastElementChild.replaceChildren(...notes.map((text) => make("p", { text })));
  };
  const showError = (text) => part("problems").replaceChildren(notice(text));
  return { render, showError };
}

store.define("predictions", { skeleton: "rows", needs: ["image"], follows: ["model"], create });
