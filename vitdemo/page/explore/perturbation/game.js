// The predictions of all models for the changed image, the chosen model first. If the image is changed, a thin bar is the
// probability before the change.
import { drawNotice, formatChange, formatProbability } from "../../components/shared.js";
import { markup, nothing, render as draw } from "../../markup.js";
import * as store from "../../store.js";
import { fillPlural } from "../../texts.js";

function drawRow(name, before, now) {
  const isChanged = before !== undefined;
  const shares = isChanged ? [before, now] : [now];
  return markup`<tr><th scope="row">${name}</th><td class=${isChanged ? "bars both" : "bars"}>${
    shares.map((share) => markup`<i style="width: ${100 * share}%"></i>`)
  }</td>${shares.map((share) => markup`<td>${formatProbability(share)}</td>`)}${
    isChanged ? markup`<td class="points">${formatChange(before, now)}</td>` : nothing
  }</tr>`;
}

const isKept = ({ predicted: [before, now] }) => before === now;

function describeChange({ predicted: [before, now] }, isChanged) {
  if (!isChanged) return now;
  return before === now ? `still ${now}` : `${before} → ${now}`;
}

function describeKept(models) {
  const values = { kept: models.filter(isKept).length };
  return fillPlural(
    models.length,
    "{kept} of {count} model keeps its prediction.",
    "{kept} of {count} models keep their prediction.",
    values,
  );
}

function drawCard(model, isChanged) {
  const { run, classes, before, now } = model;
  const heads = ["before", "now", "change"].map((text) => markup`<th scope="col">${text}</th>`);
  const head = markup`<thead><tr><td></td><td></td>${heads}</tr></thead>`;
  return markup`<section class=${isKept(model) ? "card" : "card changed"}>
    <h3><span>${run}</span><b>${describeChange(model, isChanged)}</b></h3>
    <table>${isChanged ? head : nothing}
      <tbody>${classes.map((name, i) => drawRow(name, isChanged ? before[i] : undefined, now[i]))}</tbody>
    </table>
  </section>`;
}

function render(element, { is_changed: isChanged, models, problems }, state) {
  const ordered = models.toSorted((a, b) => (b.run === state.model) - (a.run === state.model));
  draw(
    markup`<p class="summary" role="status">${isChanged ? describeKept(models) : ""}</p>
      <div class="cards">${ordered.map((model) => drawCard(model, isChanged))}</div>
      ${problems.map(drawNotice)}`,
    element,
  );
}

store.define("changed_predictions", { skeleton: "rows", render });
