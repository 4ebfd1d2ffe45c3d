// Templates of lit-html 3.3.3 (https://lit.dev): `markup`, and `shapes` for the content of an SVG element. The tags are not
// named `html` and `svg`, because `deno fmt` would change the white space of such templates, and thereby the texts.
import { html as markup, nothing, render, svg as shapes } from "./vendor/lit-html.js";

export { markup, nothing, render, shapes };

// The element of a template that consists of one element.
export function makeElement(template) {
  const fragment = document.createDocumentFragment();
  render(template, fragment);
  return fragment.firstElementChild;
}
