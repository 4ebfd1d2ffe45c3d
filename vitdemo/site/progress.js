// A line at the bottom of the window while a model is loaded.
import { makeElement, markup } from "../page/markup.js";

const HIDE_AFTER = 400; // milliseconds after the last part
const STALLED_AFTER = 20000; // milliseconds after a part that is not known to be the last
let line = null;
let timer = null;

const formatSize = (bytes) => (bytes / 1e6).toFixed(1);

function hide() {
  line?.remove();
  line = null;
}

// Show that `loaded` of `size` bytes of `name` have arrived; a size of 0 is not known.
export function showProgress({ name, loaded, size }) {
  line ??= document.body.appendChild(makeElement(markup`<p class="vd-loading" role="status"></p>`));
  const total = size ? ` of ${formatSize(size)}` : "";
  line.textContent = `Loading ${name}: ${formatSize(loaded)}${total} MB`;
  clearTimeout(timer);
  timer = setTimeout(hide, loaded === size ? HIDE_AFTER : STALLED_AFTER);
}
