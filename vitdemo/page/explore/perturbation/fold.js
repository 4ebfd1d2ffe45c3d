// The folds of both kinds of sliders.
import { markup, render as draw } from "../../markup.js";
import * as store from "../../store.js";

// View, and the value of the state key `open_fold` if the fold is open.
const FOLDS = [["changes_fold", "sliders"], ["knockout_fold", "knockout"]];
const TITLES = store.getLabels("open_fold");
const openFold = (name) => store.set({ open_fold: name });

for (const [view, name] of FOLDS) {
  store.define(view, {
    follows: ["open_fold"],
    render(element, _, { open_fold: open }) {
      const isOpen = open === name;
      draw(
        markup`<button type="button" class="fold" aria-expanded=${String(isOpen)}
          @click=${() => openFold(isOpen ? "" : name)}>${TITLES[name]}</button>`,
        element,
      );
    },
  });
}

store.watch(["open_fold"], ({ open_fold: open }) => {
  document.documentElement.dataset.hands = open;
});
store.watch(["first_blocked", "last_blocked"], (state) => {
  if (state.last_blocked >= state.first_blocked) openFold("knockout");
});
// A lesson refers to a control in a fold.
document.addEventListener("vitdemo:reveal", ({ target }) => {
  if (target.closest("#hands-more")) openFold("sliders");
  if (target.closest("#knockout")) openFold("knockout");
});
