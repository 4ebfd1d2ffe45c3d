// Draws the text next to the page's name, and the problems below it.
import { markup, render } from "../markup.js";
import { TEXTS } from "../texts.js";
import { notice, received } from "./shared.js";

export function mount({ element, props, watch }) {
  const texts = TEXTS.header;
  render(
    markup`<a class="skip" href="#attention">${texts.skip}</a>
    <h1>${texts.title}</h1>
    <p>${texts.purpose} <span></span></p>
    <div class="problems"></div>`,
    element,
  );

  function draw() {
    const { words = "", problems = [] } = received(props) || {};
    element.querySelector("p span").textContent = words;
    element.querySelector(".problems").replaceChildren(...problems.map(notice));
  }
  // Done in a script, since gradio blocks jumps within the page, and the map's tab may be closed.
  element.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    document.querySelector("#tabs [role=tab][data-tab-id=look]")?.click();
    requestAnimationFrame(() => {
      const map = document.querySelector("#attention .large");
      map?.focus({ preventScroll: true });
      map?.scrollIntoView({ block: "center" });
    });
  });
  watch("value", draw);
  draw();
}
