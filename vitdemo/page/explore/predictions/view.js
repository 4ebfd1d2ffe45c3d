// The predictions of the chosen model, and of all other models in a fold. The true class of a test image is marked, and an
// image unlike the training images has a warning. One sentence is for screen readers.
import { drawClassBar } from "../../components/class_bars.js";
import { drawNotice, formatProbability } from "../../components/shared.js";
import { markup, nothing, render as draw } from "../../markup.js";
import * as store from "../../store.js";
import {
  describeAccuracy,
  describeModel,
  describeOthers,
  describeSet,
  describeUnusual,
  listNotes,
} from "./texts.js";

function drawRows({ classes, probabilities, label: truth }) {
  return markup`<ul>${
    classes.map((name, i) => drawClassBar(name, probabilities[i], { truth, isFirst: i === 0 }))
  }</ul>`;
}

function drawRemarks(model) {
  const unusual = describeUnusual(model);
  const warning = unusual ? markup`<p class="unusual">${unusual}</p>` : nothing;
  return markup`${warning}<p class="known set">${describeSet(model)}</p><p class="known">${
    describeAccuracy(model)
  }</p>`;
}

function drawChosenCard(model) {
  const head = markup`<h2 class="read">${model.run}</h2>`; // the menu above shows the name
  return markup`<section class="card chosen" title=${describeModel(model)}>${head}${drawRows(model)}${
    drawRemarks(model)
  }</section>`;
}

function drawOtherCard(model, isOpen) {
  const kind = model.label === null ? "" : model.classes[0] === model.label ? "true" : "wrong";
  const best = `${model.classes[0]} ${formatProbability(model.probabilities[0])}`;
  return markup`<details class="card" .open=${isOpen} data-run=${model.run}>
    <summary title=${
    describeModel(model)
  }><h2><span>${model.run}</span><b class=${kind}>${best}</b></h2></summary>
    ${drawRows(model)}${drawRemarks(model)}
  </details>`;
}

// The other models in one line that can be opened.
function drawOthers(chosen, others, open) {
  if (!others.length) return nothing;
  return markup`<details class="others" .open=${open.length > 0 || undefined}>
    <summary>${describeOthers(chosen, others)}</summary>
    ${others.map((model) => drawOtherCard(model, open.includes(model.run)))}
  </details>`;
}

function describePredictions({ label, models }) {
  const spoken = models.map((model) => {
    const { run, classes, probabilities } = model;
    const unusual = describeUnusual(model);
    const remark = unusual ? ` (${unusual.replace(/\.$/, "")})` : "";
    return `${run}: ${classes[0]}, ${formatProbability(probabilities[0])}${remark}`;
  });
  return [`${spoken.join("; ")}.`, ...(label ? [`True class: ${label}.`] : [])].join(" ");
}

function create(element) {
  let drawn = { cards: nothing, spoken: "", notes: [], offer: "" }; // the last predictions, which remain during an error
  function show(problems) {
    draw(
      markup`<div class="answers">
        <div class="cards">${drawn.cards}</div>
        <p class="known">${drawn.offer}</p>
        <p class="read" role="status">${drawn.spoken}</p>
        <div class="problems">${problems}</div>
        <details class="notes"><summary>About these numbers</summary><div>${
        drawn.notes.map((text) => markup`<p>${text}</p>`)
      }</div></details>
      </div>`,
      element,
    );
  }
  function render(data, state) {
    const open = [...element.querySelectorAll("details.card[open]")].map((each) => each.dataset.run);
    const chosen = data.models.find(({ run }) => run === state.model);
    const others = data.models.filter(({ run }) => run !== state.model);
    const cards = [chosen ? drawChosenCard(chosen) : nothing, drawOthers(chosen, others, open)];
    drawn = { cards, spoken: describePredictions(data), notes: listNotes(data), offer: data.offer ?? "" };
    show(data.problems.map(drawNotice));
  }
  show(nothing);
  return { render, showError: (text) => show(drawNotice(text)) };
}

store.define("predictions", { skeleton: "rows", follows: ["model"], create });
