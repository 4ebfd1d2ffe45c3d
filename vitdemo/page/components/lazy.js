// Content of a fold (details) that is drawn while the fold is open. `content` returns its template.
import { markup, render } from "../markup.js";

class Lazy extends HTMLElement {
  #content = null;

  set content(content) {
    this.#content = content;
    this.draw();
  }

  connectedCallback() {
    this.parentElement.ontoggle = () => this.draw();
    this.draw();
  }

  draw() {
    if (this.parentElement?.open) this.fill();
  }

  // Draw the content although the fold is closed, because a script looks for an element in it.
  fill() {
    render(this.#content(), this);
  }
}
customElements.define("vd-lazy", Lazy);

export const drawLazily = (content) => markup`<vd-lazy .content=${content}></vd-lazy>`;
