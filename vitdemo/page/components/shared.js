// Functions shared by the components: map colours, number formats, messages, files, keyboard navigation.
import { COLOUR_MAPS } from "../generated.js";
import { markup, nothing } from "../markup.js";

export { cards, drawMarkdown, drawNotice } from "../notices.js";

const decodeBytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const COLOURS = { plain: decodeBytes(COLOUR_MAPS.sequential), signed: decodeBytes(COLOUR_MAPS.diverging) }; // 256 x RGB
// The colour [red, green, blue] at a position from 0 (lower end) to 1 (upper end) of the colour map.
export function getColour(share, signed = true) {
  const at = 3 * Math.min(Math.max(Math.floor(256 * share), 0), 255);
  return [...(signed ? COLOURS.signed : COLOURS.plain).subarray(at, at + 3)];
}

// Colour scales: the position in the colour map of a value from 0 to 1. The logarithmic scale has three decades.
const DECADES = 3;
const SCALES = {
  linear: (share) => share,
  root: Math.sqrt,
  log: (share) => Math.max(1 + Math.log10(share) / DECADES, 0),
};
export const getMiddleValue = (scale) => ({ linear: 0.5, root: 0.25, log: 10 ** (-DECADES / 2) })[scale]; // value at the middle of the colours
export const getLowestValue = (scale) => (scale === "log" ? 10 ** -DECADES : 0); // values up to this one have the first colour

// Draw values (rows x columns, row by row) on a canvas with one pixel per patch. Colours range from 0
// to `top`, or from -top to top if `signed`; the default of `top` is the maximum. NaN is grey. Signed values have a
// linear scale.
export function drawValues(
  canvas,
  values,
  [rows, columns],
  { top = null, signed = false, scale = "linear" } = {},
) {
  if (canvas.width !== columns || canvas.height !== rows) {
    canvas.width = columns;
    canvas.height = rows;
  }
  const colours = signed ? COLOURS.signed : COLOURS.plain;
  const limit = top ?? findLargest(values);
  // Small images that change with every pointer move are faster in memory than on a GPU.
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const image = context.createImageData(columns, rows);
  for (let i = 0; i < values.length; i++) {
    let share = limit > 0 ? values[i] / limit : 0;
    share = signed ? (share + 1) / 2 : SCALES[scale](share);
    const at = 3 * Math.min(Math.max(Math.floor(256 * share), 0), 255);
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = colours[at + c] ?? 128;
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

// A canvas of `width` x `height` pixels.
export const makeCanvas = (width, height) =>
  Object.assign(document.createElement("canvas"), { width, height });

// Whether this computer serves the page, so that the page has only one user.
export const isLocalPage = () => ["localhost", "127.0.0.1", "[::1]"].includes(window.location.hostname);

export const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

// The results of `make` for the numbers from 0 to `count` - 1.
export const makeRange = (count, make = (i) => i) => Array.from({ length: count }, (_, i) => make(i));

export function findLargest(values) {
  let top = 0;
  for (const value of values) if (Math.abs(value) > top) top = Math.abs(value);
  return top;
}

// The colour map as a CSS background.
export function formatRamp(signed) {
  const stops = makeRange(17, (i) => `rgb(${getColour(i / 16, signed).join(" ")})`);
  return `linear-gradient(to right, ${stops.join(", ")})`;
}

// A change of a probability in percentage points, such as "+1.2", "−0.3" or "±0.0".
export function formatChange(before, now) {
  const difference = 100 * (now - before);
  const sign = Math.abs(difference) < 0.05 ? "±" : difference > 0 ? "+" : "−";
  return sign + Math.abs(difference).toFixed(1);
}

// A class probability, such as "12.3%".
export const formatProbability = (share) => `${(100 * share).toFixed(1)}%`;

// A percentage with enough digits for small values, such as "12.3%" or "0.041%".
export function formatPercent(share) {
  const number = 100 * share;
  if (number === 0 || Math.abs(number) >= 1) return `${number.toFixed(1)}%`;
  return `${Number(number.toPrecision(2))}%`;
}

// A button that starts, saves or copies something.
export const drawActionButton = (text, click, id = nothing) =>
  markup`<button type="button" class="vd-download" id=${id} @click=${click}>${text}</button>`;

// CSS of an element with image `at` of a sheet, whose images of equal size are in `columns` and `rows`.
export function formatSheetStyle({ url }, at, columns, rows = 1) {
  const computePosition = (place, all) => (all > 1 ? (100 * place) / (all - 1) : 0);
  const [x, y] = [computePosition(at % columns, columns), computePosition(Math.floor(at / columns), rows)];
  const size = `${100 * columns}% ${100 * rows}%`;
  return `background-image: url("${url}"); background-size: ${size}; background-position: ${x}% ${y}%`;
}

export function saveAs(url, name) {
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
}

export function saveText(text, name, type) {
  const url = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  saveAs(url, name);
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// Copy a text, or save it as the file `name` if the browser blocks copying. Return whether it is copied.
export async function copyText(text, name, type) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { // the clipboard requires HTTPS
    saveText(text, name, type);
    return false;
  }
}

// A spreadsheet would compute a name that begins with "=" or "@", so the name gets an apostrophe.
const asText = (cell) => (/^[=@]/.test(cell) ? `'${cell}` : cell);

export const formatCsv = (rows) =>
  rows
    .map((row) =>
      row.map(asText)
        .map((cell) => (/[",\r\n]/.test(cell) ? `"${String(cell).replaceAll('"', '""')}"` : cell))
        .join(",")
    )
    .join("\n") + "\n";

export const formatFileName = (words) =>
  words.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 70);

// Roving tabindex: arrow keys, Home and End move the focus between the buttons of an element, and Tab reaches only one
// button. With `flows` (wrapped rows), the end of a row leads to the next row. Returns listeners for the element: `focus`
// of focusin, and `press` of keydown.
export function createRoving(
  countColumns,
  flows = false,
  listButtons = (place) => [...place.querySelectorAll("button")],
) {
  return {
    focus({ currentTarget, target }) {
      if (listButtons(currentTarget).includes(target)) setTabStop(listButtons(currentTarget), target);
    },
    press(event) {
      const all = listButtons(event.currentTarget);
      const at = all.indexOf(event.target);
      if (at < 0 || event.ctrlKey || event.altKey || event.metaKey) return;
      const across = countColumns(all);
      const column = at % across;
      const next = {
        ArrowLeft: flows || column > 0 ? at - 1 : at,
        ArrowRight: flows || column < across - 1 ? at + 1 : at,
        ArrowUp: at - across,
        ArrowDown: at + across,
        Home: at - column,
        End: Math.min(at - column + across - 1, all.length - 1),
      }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      all[next]?.focus();
    },
  };
}

// Style of a cell of a matrix with a `strength` of 0 to 1. The cell has at most 55% colour, so that the text has a contrast
// above 5:1 in the light and the dark theme.
export const formatShade = (colour, strength) =>
  `background: color-mix(in srgb, ${colour} ${Math.round(55 * Math.min(strength, 1))}%, transparent)`;

// Let Tab reach only the button `chosen`.
export function setTabStop(buttons, chosen) {
  for (const button of buttons) button.tabIndex = button === chosen ? 0 : -1;
}

// Add the listeners of `createRoving` to `place`, with its `listButtons()`. Returns `setTabStop` for these buttons.
export function addRoving(place, listButtons, countColumns, flows = false) {
  const { focus, press } = createRoving(countColumns, flows, listButtons);
  place.addEventListener("focusin", focus);
  place.addEventListener("keydown", press);
  return (chosen) => setTabStop(listButtons(), chosen);
}

// Show a camera in `video`. `open()` returns whether it works, and calls `showMessage` with the reason if not;
// `takePhoto(type)` promises the current image; `close()` releases the camera.
export function createCamera(video, showMessage) {
  let stream = null;
  function close() {
    for (const track of stream?.getTracks() ?? []) track.stop();
    stream = null;
  }
  async function open() {
    if (!navigator.mediaDevices?.getUserMedia) {
      showMessage(
        "The browser blocks the camera, because it requires HTTPS or localhost. Upload a photo instead.",
      );
      return false;
    }
    try {
      stream ??= await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
      video.srcObject = stream;
      await video.play();
      return true;
    } catch (error) {
      close();
      showMessage(
        error.name === "NotAllowedError"
          ? "Access to the camera was denied. Allow it in the browser settings."
          : "No camera was found. Upload a photo instead.",
      );
      return false;
    }
  }
  async function takePhoto(type) {
    if (!video.videoWidth) {
      await new Promise((done) => video.addEventListener("loadeddata", done, { once: true })); // no frame yet
    }
    const canvas = makeCanvas(video.videoWidth, video.videoHeight);
    canvas.getContext("2d").drawImage(video, 0, 0);
    return new Promise((done) => canvas.toBlob(done, type, 0.9));
  }
  return { close, open, takePhoto };
}

// Call `handle` after changes of the page. `wait(done)` delays the call, so that it follows all changes of one redraw.
export function observePage(handle, wait) {
  let isWaiting = false;
  new MutationObserver(() => {
    if (isWaiting) return;
    isWaiting = true;
    wait(() => {
      isWaiting = false;
      handle();
    });
  }).observe(document.documentElement, { childList: true, subtree: true });
}

// Close the open menus (`details`) that `listMenus()` returns with Escape, and with a click next to them.
export function addMenuListeners(place, listMenus) {
  document.addEventListener("pointerdown", ({ target }) => {
    for (const menu of listMenus()) if (menu.open && !menu.contains(target)) menu.open = false;
  });
  place.addEventListener("keydown", ({ key, target }) => {
    const menu = key === "Escape" && listMenus().find((each) => each.open && each.contains(target));
    if (!menu) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
}

// Steps of the arrow keys in a grid, as [down, right].
export const ARROW_MOVES = {
  ...{ ArrowLeft: [0, -1], ArrowRight: [0, 1] },
  ...{ ArrowUp: [-1, 0], ArrowDown: [1, 0] },
};

// The cell of a grid after a step from the cell `number`. The step does not leave the grid.
export function moveInGrid([down, right], number, [rows, columns]) {
  const row = clamp(Math.floor(number / columns) + down, 0, rows - 1);
  return row * columns + clamp((number % columns) + right, 0, columns - 1);
}

export const findMiddle = ([rows, columns]) => Math.floor(rows / 2) * columns + Math.floor(columns / 2);

// Number of the patch under the pointer, in an element that shows a grid of patches.
export function findPatch(element, [rows, columns], { clientX, clientY }) {
  const box = element.getBoundingClientRect();
  const computeIndex = (share, count) => clamp(Math.floor(share * count), 0, count - 1);
  return computeIndex((clientY - box.top) / box.height, rows) * columns +
    computeIndex((clientX - box.left) / box.width, columns);
}

// CSS of a patch in an element that shows a grid of patches.
export function formatPatchStyle(number, [rows, columns]) {
  const [top, left] = [Math.floor(number / columns) / rows, (number % columns) / columns];
  return `top: ${100 * top}%; left: ${100 * left}%; width: ${100 / columns}%; height: ${100 / rows}%`;
}

// Move a ring to a patch, or hide the ring if there is no patch with this number.
export function placeRing(ring, grid, number) {
  ring.hidden = !(number >= 0);
  ring.style.cssText = formatPatchStyle(number, grid);
}
