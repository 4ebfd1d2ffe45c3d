// Draws the text next to the page's name, and the problems below it.
import { markup, render } from "../markup.js";
import { parsePayload } from "../store.js";
import { drawNotice } from "./shared.js";

// Jump to the map by a script, since gradio blocks jumps within the page, and the map's tab may be closed.
function skipToMap(event) {
  event.preventDefault();
  document.querySelector("#tabs [role=tab][data-tab-id=look]")?.click();
  requestAnimationFrame(() => {
    const map = document.querySelector("#attention .large");
    map?.focus({ preventScroll: true });
    map?.scrollIntoView({ block: "center" });
  });
}

export function mount({ element, props, watch }) {
  function draw() {
    const { summary = "", problems = [] } = parsePayload(props) || {};
    render(
      markup`<a class="skip" href="#attention" @click=${skipToMap}>Skip to the attention map</a>
      <h1>vitdemo</h1>
      <p title=${summary}>Explore how Vision Transformers learn and what they attend to.</p>
      <div class="problems">${problems.map(drawNotice)}</div>`,
      element,
    );
  }
  watch("value", draw);
  draw();
}
