// The menu Export of a tab: files of its visible charts and tables. It closes with Escape, and with a click next to it.
import { listExports } from "../components/exports.js";
import { addMenuListeners } from "../components/shared.js";
import { markup, nothing, render } from "../markup.js";
import * as store from "../store.js";

const NOTHING = "This view has no chart or table.";
const PLACES = "#explore-sections, [role=tabpanel], .tabitem"; // whose views the menu exports

function create(element) {
  let listed = []; // the offers when the menu was opened
  let message = "";

  async function save(action) {
    message = (await action()) ?? "";
    draw();
  }

  function drawOffer({ name, formats }) {
    const drawButton = ([format, action]) =>
      markup`<button type="button" aria-label="${format}: ${name}" @click=${() =>
        save(action)}>${format}</button>`;
    return markup`<li><span title=${name}>${name}</span>${Object.entries(formats).map(drawButton)}</li>`;
  }

  function toggle({ target }) {
    listed = target.open ? listExports(element.closest(PLACES) ?? document.body) : [];
    message = "";
    draw();
  }

  function draw() {
    render(
      markup`<details class="vd-export" @toggle=${toggle}>
        <summary>Export</summary>
        <div class="panel"><ul>${listed.map(drawOffer)}</ul>${
        listed.length ? nothing : markup`<p>${NOTHING}</p>`
      }<p role="status">${message}</p></div>
      </details>`,
      element,
    );
  }

  addMenuListeners(element, () => [...element.children]);
  return { render: draw };
}

store.define("export_menu", { create });
