// The fold of the further changes.
import { markup, render as draw } from "../../markup.js";
import * as store from "../../store.js";

const NAME = "sliders"; // value of the state key `open_fold` if the fold is open
const TITLE = store.getLabels("open_fold")[NAME];
const openFold = (name) => store.set({ open_fold: name });

store.define("changes_fold", {
  follows: ["open_fold"],
  render(element, _, { open_fold: open }) {
    const isOpen = open === NAME;
    draw(
      markup`<button type="button" class="fold" aria-expanded=${String(isOpen)}
        @click=${() => openFold(isOpen ? "" : NAME)}>${TITLE}</button>`,
      element,
    );
  },
});

store.watch(["open_fold"], ({ open_fold: open }) => {
  document.documentElement.dataset.hands = open;
});
// A lesson refers to a control in the fold.
document.addEventListener("vitdemo:reveal", ({ target }) => {
  if (target.closest("#hands-more")) openFold(NAME);
});
