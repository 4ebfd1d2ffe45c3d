// The predictions of all models for the changed image, the chosen model first. If the image is changed, a thin bar is the
// probability before the change.
import { drawNotice, formatChange, formatProbability } from "../../components/shared.js";
import { markup, nothing, render as draw } from "../../markup.js";
import * as store from "../../store.js";

function drawRow(name, before, now) {
  const isChanged = before !== undefined;
  const shares = isChanged ? [before, now] : [now];
  return markup`<tr><th scope="row">${name}</th><td class=${isChanged ? "bars both" : "bars"}>${
    shares.map((share) => markup`<i style="width: ${100 * share}%"></i>`)
  }</td>${shares.map((share) => markup`<td>${formatProbability(share)}</td>`)}${
    isChanged ? markup`<td class="points">${formatChange(before, now)}</td>` : nothing
  }</tr>`;
}

function drawCard({ run, verdict, isKept, classes, before, now }) {
  const heads = ["before", "now", "change"].map((text) => markup`<th scope="col">${text}</th>`);
  const head = markup`<thead><tr><td></td><td></td>${heads}</tr></thead>`;
  return markup`<section class=${isKept ? "card" : "card changed"}>
    <h3><span>${run}</span><b>${verdict}</b></h3>
    <table>${before.length ? head : nothing}
      <tbody>${classes.map((name, i) => drawRow(name, before[i], now[i]))}</tbody>
    </table>
  </section>`;
}

function render(element, { summary, models, problems }, state) {
  const ordered = models.toSorted((a, b) => (b.run === state.model) - (a.run === state.model));
  draw(
    markup`<p class="summary" role="status">${summary}</p>
      <div class="cards">${ordered.map(drawCard)}</div>
      ${problems.map(drawNotice)}`,
    element,
  );
}

store.define("changed_predictions", { skeleton: "rows", render });
