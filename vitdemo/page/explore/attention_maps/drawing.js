// All parts of the view, drawn from the trace and the view state.
import { getPatch } from "../../components/matrices.js";
import { render } from "../../markup.js";
import * as store from "../../store.js";
import { createControls } from "./controls.js";
import { addPatchGestures } from "./gestures.js";
import { createHeadGrid } from "./head_grid.js";
import { createLargeMap } from "./large_map.js";
import { LAYOUT } from "./layout.js";
import { createMapHint } from "./map_hint.js";
import { createPath } from "./path.js";
import { createSaveButtons, drawShareButton } from "./saving.js";
import { choose, readSelection, readValues } from "./selection.js";
import { drawMapTables } from "./map_texts.js";
import { describeResult } from "./result.js";

// Return the parts of the view, which read `shown`: { trace (or null), pointed (number of the patch under the pointer, or
// null), playing (layer that *Play* shows, or null), top (the maximum of the colour scale, if all heads have the same
// scale) }.
function createParts(findPart, shown, { drawSoon, follow }, showMessage) {
  const [large, wall] = [findPart("large"), findPart("wall")];
  const getSelection = () =>
    readSelection(
      shown.trace,
      { ...store.state, layer: shown.playing ?? store.state.layer },
      shown.pointed,
    );

  // The style limits the height of a grid below the large map.
  function computeRoom() {
    const height = Number.parseFloat(getComputedStyle(wall).maxHeight);
    return [wall.clientWidth, height || Math.max(large.clientHeight + 40, 240)];
  }
  const heads = createHeadGrid(wall, computeRoom, choose);

  function playLayer(layer) {
    shown.playing = layer;
    follow();
  }
  const path = createPath(findPart("path"), store.chooseLayer, playLayer);

  const getAll = () => ({ ...shown, selection: getSelection(), thumbnails: heads.listThumbnails() });
  const showControls = createControls(findPart("bar"), choose, {
    saves: createSaveButtons(getAll, findPart, showMessage),
    share: drawShareButton(getAll, findPart),
  });

  const hint = createMapHint(large);
  function point(number) {
    if (number === shown.pointed) return;
    shown.pointed = number;
    if (number !== null) hint.use();
    drawSoon();
  }
  function toggle(number) {
    const code = number === null ? "" : getPatch(shown.trace, number).code;
    choose({ token: code === store.state.token ? "" : code });
  }
  const getPatches = () =>
    shown.trace && { grid: shown.trace.grid, pointed: shown.pointed, chosen: getSelection().chosen.number };
  addPatchGestures(large, getPatches, { point, toggle, use: hint.use });

  return { getSelection, heads, path, showControls, drawLarge: createLargeMap(findPart) };
}

export function createDrawing(element, showMessage) {
  render(LAYOUT, element);
  const findPart = (name) => element.querySelector("." + name);
  const shown = { trace: null, pointed: null, playing: null, top: null };
  let frame = 0; // number of the requested frame
  const drawSoon = () => (frame ||= requestAnimationFrame(draw));
  const { getSelection, heads, path, showControls, drawLarge } = createParts(
    findPart,
    shown,
    { drawSoon, follow },
    showMessage,
  );

  function drawTables(selection, values) {
    if (values && findPart("numbers").open) {
      render(drawMapTables(shown.trace, selection, values), findPart("tables"));
    }
  }
  findPart("numbers").addEventListener("toggle", () => {
    if (shown.trace) drawTables(getSelection(), readValues(shown.trace, getSelection()));
  });

  function draw() {
    cancelAnimationFrame(frame);
    frame = 0;
    const { trace, pointed } = shown;
    if (!trace) return;
    const selection = getSelection();
    const values = readValues(trace, selection);
    shown.top = heads.draw(trace, selection);
    path.draw(trace, selection);
    const map = drawLarge(trace, selection, values, shown.top);
    if (!map) return;
    if (pointed === null) drawTables(selection, values);
    const { layer, head, direction, source, token } = selection;
    const detail = { run: trace.run, layer, head, token: token.code, direction, source, values: map };
    document.dispatchEvent(new CustomEvent("vitdemo:drawn", { detail }));
  }

  // Show the choices of the view state.
  function follow() {
    const selection = getSelection();
    showControls(shown.trace, selection);
    element.style.setProperty("--opacity", selection.view === "Raw" ? 1 : selection.opacity);
    heads.show(shown.trace, selection);
    path.show(shown.trace, selection);
    findPart("result").textContent = describeResult(shown.trace, selection);
    drawSoon();
  }

  function setTrace(trace) {
    Object.assign(shown, { trace, pointed: null, playing: null });
    if (!trace) return;
    const [rows, columns] = trace.grid;
    findPart("seen").src = trace.seen.url;
    findPart("seen").alt = `The input image of ${trace.run}, divided into ${rows} by ${columns} patches`;
    findPart("where").style.setProperty("--seen", `url("${trace.seen.url}")`);
  }

  // Draw immediately, because a page has no next frame while it is printed.
  function redraw() {
    if (!shown.trace || !findPart("where").offsetWidth) return;
    heads.show(shown.trace, getSelection(), true);
    draw();
  }
  new ResizeObserver(redraw).observe(findPart("beside"));

  return {
    ...{ getTrace: () => shown.trace, getSelection, setTrace, follow, draw, drawSoon },
    playAtFirstVisit: path.playAtFirstVisit,
  };
}
