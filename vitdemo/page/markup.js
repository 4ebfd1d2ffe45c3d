// Templates of lit-html 3.3.3 (https://lit.dev). The tag is not named `html`, because `deno fmt` would change the white space
// of templates with this name, and thereby the texts.
import { html as markup, nothing, render } from "./vendor/lit-html.js";

export { markup, nothing, render };

// The element of a template that consists of one element.
export function elementOf(template) {
  const fragment = document.createDocumentFragment();
  render(template, fragment);
  return fragment.firstElementChild;
}
