// A fold of gradio's controls: a button that shows the next element of the layout. A state key contains whether it is open.
import { markup, render as draw } from "../markup.js";
import * as store from "../store.js";

// Define the view of the button. The state key `key` has the value `open` or `closed`. A lesson that refers to a control in
// the element `content` opens the fold.
export function defineFold(view, { key, open, closed, title, content }) {
  store.define(view, {
    follows: [key],
    render(element, _, { [key]: value }) {
      const isOpen = value === open;
      draw(
        markup`<button type="button" class="vd-fold" aria-expanded=${String(isOpen)}
          @click=${() => store.set({ [key]: isOpen ? closed : open })}>${title}</button>`,
        element,
      );
    },
  });
  document.addEventListener("vitdemo:reveal", ({ target }) => {
    if (target.closest(content)) store.set({ [key]: open });
  });
}
