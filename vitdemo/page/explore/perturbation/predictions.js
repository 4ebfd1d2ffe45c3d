// The predictions of all models for the changed image, the chosen model first. If the image is changed, a thin bar is the
// probability before the change.
import { make, notice, probability, redraw } from "../../components/shared.js";
import * as store from "../../store.js";
import { TEXTS } from "../../texts.js";
import * as imageChanges from "./changes.js";

const texts = TEXTS.perturbation;

function points(before, now) {
  const difference = 100 * (now - before);
  if (Math.abs(difference) < 0.05) return make("td", { className: "points", text: "±0.0" });
  return make("td", {
    className: "points",
    text: (difference > 0 ? "+" : "−") + Math.abs(difference).toFixed(1),
  });
}

const bar = (share) => make("i", { style: `width: ${100 * share}%` });

function row(name, before, now) {
  const isChanged = before !== undefined;
  const bars = isChanged ? [bar(before), bar(now)] : [bar(now)];
  const numbers = isChanged ? [before, now] : [now];
  return make(
    "tr",
    {},
    make("th", { scope: "row", text: name }),
    make("td", { className: isChanged ? "bars both" : "bars" }, ...bars),
    ...numbers.map((share) => make("td", { text: probability(share) })),
    isChanged ? points(before, now) : null,
  );
}

function card({ run, verdict, isKept, classes, before, now }) {
  const head = make(
    "tr",
    {},
    make("td"),
    make("td"),
    ...[texts.before, texts.now, texts.change].map((text) => make("th", { scope: "col", text })),
  );
  return make(
    "section",
    { className: isKept ? "card" : "card changed" },
    make("h3", {}, make("span", { text: run }), make("b", { text: verdict })),
    make(
      "table",
      {},
      before.length ? make("thead", {}, head) : null,
      make("tbody", {}, ...classes.map((name, i) => row(name, before[i], now[i]))),
    ),
  );
}

function render(element, { summary, models, problems }, state) {
  const ordered = models.toSorted((a, b) => (b.run === state.model) - (a.run === state.model));
  redraw(
    element,
    make("p", { className: "summary", role: "status", text: summary }),
    make("div", { className: "cards" }, ...ordered.map(card)),
    ...problems.map(notice),
  );
}

store.define("changed_predictions", { skeleton: "rows", needs: imageChanges.NEEDS, render });
