// Interactive attention maps of one image. The server sends matrices; views that need only these
// matrices (another patch, head, layer, direction, colour) are computed here, without a request.
import { createHeadGrid } from "../../components/head_rows.js";
import { saveMaps } from "../../components/map_files.js";
import {
  computePatchShare,
  describeFewPatches,
  describeMap,
  describeValues,
  drawMapTables,
  getPatchValues,
} from "../../components/map_words.js";
import {
  computeLine,
  findToken,
  getPatch,
  listTokens,
  loadLayer,
  loadMatrices,
  makeMatrixSet,
} from "../../components/matrices.js";
import {
  clamp,
  copyText,
  drawValues,
  findLargest,
  findPatch,
  formatPercent,
  formatRamp,
  getLowestValue,
  getMiddleValue,
  makeRange,
  placeRing,
  saveText,
} from "../../components/shared.js";
import { markup, render as renderInto } from "../../markup.js";
import * as store from "../../store.js";
import { fill, MAP_FILE, SOURCE_HEAD } from "../../texts.js";
import { makeHeadsFigure, makeMapFigure } from "./figures.js";
import { drawHeadDots } from "./head_dots.js";
import { createMapHint } from "./map_hint.js";
import { createRolloutSettings } from "./rollout_settings.js";

const { head: _head, "norm-head": _normHead, ...SOURCES } = store.getLabels("source"); // of all heads
const NORMS = ["norm", "norm-head"]; // the server computes these when one of them is first chosen
const ORDERS = store.getLabels("order");
const DIRECTIONS = store.getLabels("direction");
const COLOURS = store.getLabels("colour");

const getLabel = (name) => store.keys[name].label;
const drawOptions = (values) =>
  Object.entries(values).map(([value, text]) => markup`<option value=${value}>${text}</option>`);

// The layout of the view. `choose` changes the state, `fold` contains the settings of rollout, and `saves` are buttons.
function drawLayout({ choose, fold, saves }) {
  const read = (name, property) => ({ target }) => choose({ [name]: target[property] });
  const showMap = ({ target }) => choose(parseSource(target.value));
  const hideImage = ({ target }) => choose({ view: target.checked ? "Raw" : "Overlay" });
  const drawDirection = ([name, text]) =>
    markup`<button type="button" data-name=${name} @click=${() =>
      choose({ direction: name })}>${text}</button>`;
  return markup`<div class="where" data-state="empty">
    <p class="vd-notice sentence" role="status" hidden></p>
    <div class="head">
      <p class="words"><strong class="title"></strong> <span class="little"></span></p>
      <div class="bar">
        <label><span>${getLabel("source")}</span> <select class="source" @change=${showMap}></select></label>
        ${fold}
        <div class="direction" role="group" aria-label=${getLabel("direction")}>${
    Object.entries(DIRECTIONS).map(drawDirection)
  }</div>
        <details class="display">
          <summary>Display</summary>
          <div class="panel">
            <label>${getLabel("order")}
              <select class="order" @change=${read("order", "value")}>${drawOptions(ORDERS)}</select></label>
            <label><input type="checkbox" class="across" @change=${read("across", "checked")}> ${
    getLabel("across")
  }</label>
            <label>${getLabel("colour")}
              <select class="colour" @change=${read("colour", "value")}>${
    drawOptions(COLOURS)
  }</select></label>
            <label><input type="checkbox" class="one" @change=${read("scale", "checked")}> ${
    getLabel("scale")
  }</label>
            <label><input type="checkbox" class="raw" @change=${hideImage}> ${getLabel("view")}</label>
            <label>${getLabel("opacity")} <input type="range" class="opacity" min="0" max="1" step="0.05"
              @input=${read("opacity", "valueAsNumber")}></label>
            <div class="save">${saves}</div>
          </div>
        </details>
      </div>
    </div>
    <div class="both">
      <figure class="map">
        <div class="large" tabindex="0" role="application" aria-label="Large map">
          <img class="seen" alt=""><canvas></canvas><i class="ring chosen" hidden></i><i class="ring under" hidden></i>
        </div>
        <div class="under">
          <div class="legend"
            aria-hidden="true"><span class="low">0</span><i class="ramp"></i><span class="middle"></span><i class="ramp"></i><span class="top"></span><span class="kind"></span></div>
          <div class="tokens" role="group" aria-label="Special tokens and their attention weights"></div>
        </div>
        <p class="pointed" role="status"></p>
      </figure>
      <div class="beside">
        <figure class="wall" role="group" aria-label="Grid of all heads: choose a map to enlarge it"></figure>
        <figure class="dots" role="group" aria-label="Attention distance of each head: choose a dot to show its map"></figure>
      </div>
    </div>
    <details class="numbers">
      <summary>Values of the map, and distance and entropy of each head</summary>
      <div class="tables"></div>
    </details>
  </div>`;
}

// The state keys of the view. Without `source`, the map with the highest mean score is shown.
const OPTIONS = [
  ...["source", "column", "head", "token", "direction", "order"],
  ...["across", "scale", "colour", "view", "opacity"],
];
const COLUMNS = store.keys.column.choices; // maps for the grid's last column, which shows the last chosen map
const clampNumber = (number, top) => clamp(Math.round(Number(number)) || 1, 1, top);

// The map of an entry of the menu, such as "rollout" or "head 2".
function parseSource(entry) {
  const [of, head] = entry.split(" ");
  return head ? { of, head: Number(head) } : { of };
}

function create(element) {
  const rollout = createRolloutSettings();
  renderInto(drawLayout({ choose, fold: rollout.fold, saves: drawSaveButtons() }), element);
  const findPart = (name) => element.querySelector("." + name);
  const [where, large, wall] = [findPart("where"), findPart("large"), findPart("wall")];
  const state = { ...store.state }; // the selection, within the limits of the drawn model
  let look = null; // the drawn payload, with its matrices and tokens
  let newest = 0; // number of the latest payload; earlier payloads that arrive late are ignored
  let pointed = null; // number of the patch under the pointer
  let other = "rollout"; // the map in the last column of the grid
  let set = "head"; // the heads' maps in the grid: attention weights, or "norm-head"
  let cursor = 0; // the patch at the keyboard cursor
  let commonTop = null; // the maximum of the colour scale, if all heads have the same scale

  // --- the selection ---

  const getPatchToken = (number) => getPatch(look, number);
  const getToken = (code) => findToken(look, code);
  const getAskedToken = () => (pointed === null ? getToken(state.token) : getPatchToken(pointed));
  const isIncoming = () => state.direction === "incoming" && state.source !== "similar";
  const getLine = (of, layer, head, token) =>
    computeLine(look, of, layer, head, token, state.direction === "incoming");
  const getPatches = (values) => getPatchValues(look, values);

  // --- drawing ---

  // Similarities have no sinks, so their scale is always linear.
  const getColours = (of) => (of === "similar" ? { signed: true } : { scale: state.colour });

  let drawing = 0;
  function drawSoon() {
    if (!drawing) drawing = requestAnimationFrame(draw);
  }

  function draw() {
    drawing = 0;
    if (!look) return;
    const token = getAskedToken();
    const thumbnails = heads.listThumbnails();
    const maps = thumbnails.map(({ of, layer, head }) => {
      const values = getLine(of, layer, head, token);
      return values && getPatches(values);
    });
    const drawn = maps.filter((map, i) => map && thumbnails[i].of === set);
    const top = (commonTop = state.scale ? Math.max(...drawn.map(findLargest), 0) : null);
    thumbnails.forEach(({ button, canvas, of }, i) => {
      button.classList.toggle("waits", !maps[i]);
      if (maps[i]) {
        drawValues(canvas, maps[i], look.grid, { top: of === set ? top : null, ...getColours(of) });
      }
    });
    drawLarge(token, top);
  }

  function drawLarge(token, top) {
    const values = getLine(state.source, state.layer, state.head, token);
    drawTexts(token, values);
    findPart("map").classList.toggle("waits", !values);
    placeRing(findPart("ring.chosen"), look.grid, getToken(state.token).number);
    placeRing(findPart("ring.under"), look.grid, pointed ?? undefined);
    if (!values) return;
    const map = getPatches(values);
    const signed = state.source === "similar";
    const limit = state.source === set && top !== null ? top : findLargest(map);
    drawValues(large.querySelector("canvas"), map, look.grid, { top: limit, ...getColours(state.source) });
    drawLegend(limit, signed);
    const { layer, head, direction, source } = state;
    const detail = { run: look.run, layer, head, token: token.code, direction, source, values: map };
    document.dispatchEvent(new CustomEvent("vitdemo:drawn", { detail }));
  }

  // The legend shows the values at both ends and, unless the scale is linear, in the middle of the colours.
  function drawLegend(limit, signed) {
    const formatValue = signed
      ? (value) => value.toFixed(2)
      : (value) => (value ? formatPercent(value) : "0");
    const { scale: colour = "linear" } = getColours(state.source);
    const low = signed ? -limit : limit * getLowestValue(colour);
    findPart("legend").style.setProperty("--ramp", formatRamp(signed));
    findPart("low").textContent = low > 0 ? `≤ ${formatValue(low)}` : formatValue(low);
    findPart("middle").textContent = colour === "linear" ? "" : formatValue(limit * getMiddleValue(colour));
    findPart("top").textContent = formatValue(limit);
    findPart("kind").textContent = colour === "linear" ? "" : `${COLOURS[colour]} scale`;
  }

  // --- texts ---

  // The drawn map as map_words.js expects it.
  const getView = () => ({ of: state.source, layer: state.layer, head: state.head, incoming: isIncoming() });
  const describeTitle = (token) => describeMap(look, getView(), token);

  function drawTexts(token, values) {
    const share = values ? computePatchShare(look, getView(), values) : 1;
    findPart("title").textContent = describeTitle(token);
    const little = share < 0.2
      ? `All patches together receive only ${formatPercent(share)} of the attention.`
      : "";
    findPart("little").textContent = [
      little,
      values ? describeFewPatches(look, getView(), token, values) : "",
    ].join(
      " ",
    )
      .trim();
    large.setAttribute("aria-label", `Large map. ${describeTitle(token)}`);
    drawTokens(values);
    findPart("pointed").textContent = values
      ? describeValues(look, getView(), values, pointed)
      : describeWaiting();
  }

  // The tokens that are not patches, with their weights.
  function drawTokens(values) {
    const { answering, found } = look.tokens;
    const drawButton = (each) => {
      const { code, label, indices } = each;
      const weight = values && indices.length === 1 && state.source !== "similar"
        ? formatPercent(values[indices[0]])
        : "";
      return markup`<button type="button" data-code=${code} aria-pressed=${
        String(each === getToken(state.token))
      } @click=${() =>
        choose({ token: code === answering.code ? "" : code })}>${label} <b>${weight}</b></button>`;
    };
    renderInto(found.map(drawButton), findPart("tokens"));
  }

  function describeWaiting() {
    if (NORMS.includes(state.source) && look.norms?.sentence) return look.norms.sentence;
    if (state.source === "rollout" && state.layer < look.rollout.first) {
      return `This rollout starts at layer ${look.rollout.first}. Choose this layer or a later layer.`;
    }
    return "The numbers of this map are loading.";
  }

  // --- the grid of all heads ---

  const heads = createHeadGrid(wall, SOURCES, (changes) => choose(changes));
  const { hint, ...usage } = createMapHint(large);
  large.append(hint);

  function computeRoom() {
    const narrow = getComputedStyle(findPart("both")).flexDirection === "column";
    return [wall.clientWidth, narrow ? 600 : Math.max(large.clientHeight + 70, 240)];
  }

  // Build the grid; the focus remains on the same thumbnail.
  function drawHeads() {
    const focused = heads.listThumbnails().find(({ button }) => button === document.activeElement);
    heads.draw(look, { order: state.order, across: state.across, set, other, room: computeRoom() });
    heads.press(state);
    if (!focused) return;
    const isSame = ({ of, layer, head }) =>
      of === focused.of && layer === focused.layer && head === focused.head;
    heads.listThumbnails().find(isSame)?.button.focus({ preventScroll: true });
  }

  // --- user input ---

  function choose({ layer, of, ...changes }) {
    const column = of && COLUMNS.includes(state.source) ? { column: state.source } : {};
    const source = of ? { source: of } : {};
    store.set({ ...column, ...source, ...changes });
    if (layer) store.chooseLayer(layer);
  }

  // Take the selection from the view state, and draw what it changes.
  function follow() {
    const before = JSON.stringify([set, other, state.order, state.across]);
    for (const name of OPTIONS) state[name] = store.state[name];
    state.source ??= look.source;
    state.layer = clampNumber(store.state.layer ?? look.layer, look.layers);
    state.head = clampNumber(state.head, look.heads);
    requestMatrices();
    show();
    updateSets(state.source);
    if (JSON.stringify([set, other, state.order, state.across]) !== before) drawHeads();
    heads.press(state);
    drawHeadDots(findPart("dots"), look, getView(), (chosen) => choose({ of: set, ...chosen }));
    drawSoon();
  }

  // Choose the maps in the grid: either attention weights, or norm-weighted attention.
  function updateSets(of) {
    set = NORMS.includes(of) ? "norm-head" : "head";
    other = of in SOURCES ? of : of === "norm-head" ? "norm" : state.column;
  }

  // Update the controls from the state.
  function show() {
    const source = findPart("source");
    source.value = state.source in SOURCES ? state.source : `${state.source} ${state.head}`;
    for (const button of findPart("direction").children) {
      button.setAttribute("aria-pressed", String(button.dataset.name === state.direction));
      button.setAttribute("aria-disabled", String(state.source === "similar"));
    }
    [findPart("order").value, findPart("colour").value] = [state.order, state.colour];
    rollout.show({ ...store.state, source: state.source }, look.layers);
    [findPart("across").checked, findPart("one").checked, findPart("raw").checked] = [
      state.across,
      state.scale,
      state.view === "Raw",
    ];
    findPart("across").disabled = state.order === "own";
    findPart("opacity").value = state.opacity;
    findPart("opacity").disabled = state.view === "Raw";
    element.style.setProperty("--opacity", state.view === "Raw" ? 1 : state.opacity);
  }

  function point(number) {
    if (number === pointed) return;
    pointed = number;
    if (number !== null) usage.point(number);
    drawSoon();
  }

  const getPatchNumber = (event) => findPatch(large, look.grid, event);

  large.addEventListener(
    "pointermove",
    (event) => look && event.pointerType !== "touch" && point(getPatchNumber(event)),
  );
  large.addEventListener("pointerleave", () => point(null));
  large.addEventListener("click", (event) => {
    if (!look) return;
    cursor = getPatchNumber(event);
    usage.use();
    const code = getPatchToken(cursor).code;
    choose({ token: code === state.token ? "" : code });
  });
  large.addEventListener("blur", () => point(null));
  large.addEventListener("keydown", (event) => {
    if (!look || event.ctrlKey || event.altKey || event.metaKey) return;
    const [rows, columns] = look.grid;
    const chosen = getToken(state.token).number;
    const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    if (event.key in moves) {
      if (pointed === null) cursor = chosen ?? Math.floor(rows / 2) * columns + Math.floor(columns / 2);
      const [down, right] = pointed === null ? [0, 0] : moves[event.key];
      const row = clamp(Math.floor(cursor / columns) + down, 0, rows - 1);
      cursor = row * columns + clamp((cursor % columns) + right, 0, columns - 1);
      usage.use();
      point(cursor);
    } else if (event.key === "Enter" || event.key === " ") {
      if (pointed !== null) {
        choose({ token: getPatchToken(pointed).code === state.token ? "" : getPatchToken(pointed).code });
      }
    } else if (event.key === "Escape") {
      point(null);
      choose({ token: "" });
    } else return;
    event.preventDefault();
  });

  // A panel closes with Escape, and with a click next to it.
  const closePanels = (target) =>
    element.querySelectorAll("details.display[open]").forEach((each) =>
      each.contains(target) || (each.open = false)
    );
  document.addEventListener("pointerdown", ({ target }) => closePanels(target));
  findPart("bar").addEventListener("keydown", (event) => {
    const panel = event.key === "Escape" && event.target.closest("details.display[open]");
    if (!panel) return;
    panel.open = false;
    panel.firstElementChild.focus();
  });

  // --- tables of numbers, and saved images ---

  function drawTables() {
    if (!look) return; // no map has arrived yet
    const token = getAskedToken();
    const values = getLine(state.source, state.layer, state.head, token);
    if (values && findPart("numbers").open) {
      renderInto(drawMapTables(look, getView(), token, values), findPart("tables"));
    }
  }
  findPart("numbers").addEventListener("toggle", drawTables);
  document.addEventListener(
    "vitdemo:drawn",
    () => findPart("numbers").open && pointed === null && drawTables(),
  );

  function saveMap(format) {
    const [from, to, kind] = ["low", "top", "kind"].map((name) => findPart(name).textContent);
    const figure = makeMapFigure(look, {
      title: describeTitle(getAskedToken()),
      image: findPart("seen"),
      canvas: large.querySelector("canvas"),
      from,
      to,
      kind,
      signed: state.source === "similar",
    });
    saveMaps(figure, fill(MAP_FILE, { run: look.run, map: describeTitle(getAskedToken()) }), format);
  }

  function saveHeads(format) {
    const isSorted = state.order !== "own";
    const columns = look.heads + (isSorted && state.across ? 0 : 1);
    const figure = makeHeadsFigure(look, {
      thumbnails: heads.listThumbnails(),
      columns,
      isSorted,
      token: getAskedToken(),
      incoming: isIncoming(),
      set,
      top: commonTop,
      image: findPart("seen"),
      kind: findPart("kind").textContent,
    });
    saveMaps(figure, `${look.run} all heads`, format);
  }

  // The server writes a page that works without it, and Python code: see vitdemo/page/saved_view.
  function drawTaskButton(task, text, finish) {
    const start = ({ currentTarget: button }) =>
      store.startTask(task, ({ data, error, end }) => {
        button.disabled = !end;
        if (data) finish(data);
        else if (error) showMessage(error);
      }, ["image", "model"]);
    return markup`<button type="button" class="save-page" @click=${start}>${text}</button>`;
  }

  async function copyCode({ text, name }) {
    const isCopied = await copyText(text, name, "text/x-python");
    showMessage(
      isCopied
        ? "The code is copied."
        : `The browser blocked copying (it requires HTTPS). The code is saved as ${name}.`,
    );
  }

  function drawSaveButtons() {
    const images = [["Save map as {format}", saveMap], ["Save all heads as {format}", saveHeads]].flatMap((
      [text, save],
    ) =>
      ["png", "svg"].map((format) =>
        markup`<button type="button" @click=${() => save(format)}>${
          fill(text, { format: format.toUpperCase() })
        }</button>`
      )
    );
    const page = drawTaskButton(
      "saved_view",
      "Save as interactive page",
      ({ text, name }) => saveText(text, name, "text/html"),
    );
    return [...images, page, drawTaskButton("saved_code", "Copy as Python", copyCode)];
  }

  // --- payloads from the server ---

  function showMessage(text) {
    findPart("sentence").textContent = text ?? "";
    findPart("sentence").hidden = !text;
  }

  // The sets of the shown map and of the grid.
  const listShownSets = () => {
    const isNorm = NORMS.includes(state.source);
    const single = ["rollout", "similar"].filter((of) => of === state.source);
    return [...single, isNorm ? "norm-head" : "head"];
  };

  // Load the files of the current layer, one after the other, and return whether all are loaded and belong to the shown
  // image. A large model has a file per layer.
  async function load(sets) {
    const found = look;
    try {
      for (const of of sets) {
        await loadLayer(found, of, state.layer);
        if (found !== look) return false;
        drawSoon();
      }
      return true;
    } catch (error) {
      if (found === look) {
        showMessage(
          error instanceof TypeError
            ? "The server does not respond. The numbers of this layer could not be loaded."
            : error.message,
        );
      }
      return false;
    }
  }

  // Norm-weighted attention is requested when it is chosen.
  function requestMatrices() {
    if (NORMS.includes(state.source)) store.set({ norms: true });
    load(listShownSets());
  }

  // The first map needs only the rows of the classifier's token. The other files of the layer follow.
  async function loadRest() {
    const isWhole = await load([...listShownSets(), "rollout", "head", "similar"]);
    if (isWhole) where.dataset.state = "whole";
  }

  async function receive(value) {
    const mine = ++newest;
    showMessage("");
    where.dataset.state = look ? "late" : "empty";
    try {
      const picture = new Image();
      picture.src = value.seen.url;
      const here = look?.attention[0].url === value.attention[0].url ? look : null; // same image and model
      const loadFile = (file) => (file ? loadMatrices(file.url) : null);
      const norms = value.norms?.heads ? value.norms : null;
      const [rolled, rows, similar, normRows, together] = await Promise.all([
        loadFile(value.rollout.rows),
        here ? null : loadFile(value.rows),
        here ? null : loadFile(value.similar.rows),
        loadFile(norms?.rows),
        loadFile(norms?.all),
        picture.decode(),
      ]);
      if (mine !== newest) return;
      const size = value.prefix.length + value.grid[0] * value.grid[1];
      const sets = {
        rollout: makeMatrixSet(value.rollout.files, rolled),
        head: here?.sets.head ?? makeMatrixSet(value.attention, rows),
        similar: here?.sets.similar ?? makeMatrixSet(value.similar.files, similar),
        "norm-head": norms && makeMatrixSet(norms.heads, normRows),
      };
      take({ ...value, sets, together, size, tokens: listTokens(value) });
      loadRest();
    } catch (error) {
      if (mine !== newest) return;
      where.dataset.state = look ? "late" : "empty";
      showMessage([error.message, look ? "The previous image or model is still shown." : ""].join(" "));
    }
  }

  function take(found) {
    look = found;
    pointed = null;
    where.dataset.state = "here";
    findPart("seen").src = found.seen.url;
    findPart("seen").alt = `The input image of ${found.run}, divided into ${found.grid[0]} by ${
      found.grid[1]
    } patches`;
    wall.style.setProperty("--seen", `url("${found.seen.url}")`);
    const makeHeadOptions = (of, text) =>
      Object.fromEntries(makeRange(found.heads, (i) => [`${of} ${i + 1}`, fill(text, { head: i + 1 })]));
    renderInto(
      drawOptions({
        ...makeHeadOptions("head", SOURCE_HEAD),
        ...SOURCES,
        ...makeHeadOptions("norm-head", "norm-weighted, head {head}"),
      }),
      findPart("source"),
    );
    follow();
    drawHeads();
    draw();
  }

  function showError(text) {
    newest += 1;
    showMessage(text);
    where.dataset.state = "none";
    look = null;
  }

  let data = null; // the last payload
  function render(value) {
    if (value === data) return look && follow();
    data = value;
    return receive(value);
  }

  // Draw immediately, because a page has no next frame while it is printed.
  new ResizeObserver(() => look && where.offsetWidth && (drawHeads(), draw())).observe(wall.parentElement);
  return { render, showError };
}

store.define("attention", {
  skeleton: "maps",
  follows: ["layer", ...OPTIONS],
  create,
});
