// Buttons that save the maps: as images, as a page that works without the server, and as Python code.
import { setExports } from "../../components/exports.js";
import { saveMaps, shareMaps } from "../../components/map_files.js";
import { copyText, saveText } from "../../components/shared.js";
import { markup } from "../../markup.js";
import * as store from "../../store.js";
import { fill, MAP_FILE } from "../../texts.js";
import { makeHeadsFigure, makeMapFigure, makePathFigure } from "./figures.js";
import { describeMap } from "./map_texts.js";

// The server writes the page and the code: see vitdemo/page/saved_view.
function drawTaskButton(task, text, finish, showMessage) {
  const start = ({ currentTarget: button }) =>
    store.startTask(task, ({ data, error, end }) => {
      button.disabled = !end;
      if (data) finish(data);
      else if (error) showMessage(error);
    }, ["image", "model"]);
  return markup`<button type="button" class="save-page" @click=${start}>${text}</button>`;
}

// A button that shares one image: the large map, the path through the layers, and the sentence.
export function drawShareButton(getShown, findPart) {
  function share() {
    const { trace, selection } = getShown();
    const sentence = findPart("result").textContent;
    const figure = makePathFigure(trace, {
      title: sentence,
      map: describeMap(trace, selection),
      image: findPart("seen"),
      canvas: findPart("large canvas"),
      layers: findPart("layers").querySelectorAll("canvas"),
      from: findPart("low").textContent,
      to: findPart("top").textContent,
      signed: selection.isSigned,
    });
    shareMaps(figure, `${trace.run} path`, sentence);
  }
  return markup`<button type="button" class="share" @click=${share}>Share this image</button>`;
}

// The menu Export also offers the images. `getShown()` returns the { trace, selection, thumbnails, top } of the view, and
// `findPart(name)` its elements.
export function createSaveButtons(getShown, findPart, showMessage) {
  const readText = (name) => findPart(name).textContent;

  function saveMap(format) {
    const { trace, selection } = getShown();
    const title = describeMap(trace, selection);
    const figure = makeMapFigure(trace, {
      title,
      image: findPart("seen"),
      canvas: findPart("large canvas"),
      from: readText("low"),
      to: readText("top"),
      kind: readText("kind"),
      signed: selection.isSigned,
    });
    saveMaps(figure, fill(MAP_FILE, { run: trace.run, map: title }), format);
  }

  function saveHeads(format) {
    const { trace, ...shown } = getShown();
    const figure = makeHeadsFigure(trace, { ...shown, image: findPart("seen"), kind: readText("kind") });
    saveMaps(figure, `${trace.run} all heads`, format);
  }

  async function copyCode({ text, name }) {
    const isCopied = await copyText(text, name, "text/x-python");
    showMessage(
      isCopied
        ? "The code is copied."
        : `The browser blocked copying (it requires HTTPS). The code is saved as ${name}.`,
    );
  }

  function addOffer(place, name, save) {
    const formats = { PNG: () => save("png"), SVG: () => save("svg") };
    setExports(place, () => place.checkVisibility() ? { name, formats } : null);
  }
  addOffer(findPart("large"), "Large map", saveMap);
  addOffer(findPart("wall"), "Maps of all heads", saveHeads);

  const drawFormats = (text, save) =>
    ["png", "svg"].map((format) =>
      markup`<button type="button" @click=${() => save(format)}>${
        fill(text, { format: format.toUpperCase() })
      }</button>`
    );
  const savePage = ({ text, name }) => saveText(text, name, "text/html");
  return [
    ...drawFormats("Save map as {format}", saveMap),
    ...drawFormats("Save all heads as {format}", saveHeads),
    drawTaskButton("saved_view", "Save as interactive page", savePage, showMessage),
    drawTaskButton("saved_code", "Copy as Python", copyCode, showMessage),
  ];
}
