// Two images next to each other. The user chooses image 2, a layer, and the tokens of image 1 that the tokens of image 2
// replace after this layer. The patches of these tokens are shown in image 1. The prediction is below, see prediction.js.
import {
  formatPatchStyle,
  formatProbability,
  formatSheetStyle,
  placeRing,
} from "../../../components/shared.js";
import { addStrokes, applyStroke } from "../../../components/strokes.js";
import { makeElement, markup, nothing, render as draw } from "../../../markup.js";
import * as store from "../../../store.js";
import { drawSelect } from "../shared.js";
import "./maps.js";
import "./prediction.js";
import { formatTokens, parseTokens } from "./tokens.js";

const [IMAGE, LAYER, TOKENS] = ["image", "layer", "tokens"].map((name) => `patching.${name}`);

const formatLayer = (layer) => (layer ? `after layer ${layer}` : "before layer 1");

function drawImage({ grid, images }, number, cells, ring) {
  const [rows, columns] = grid;
  const drawPatch = (cell) => {
    const style = number ? "" : formatSheetStyle(images[1], cell, columns, rows);
    return markup`<i class="patch" style="${formatPatchStyle(cell, grid)}; ${style}"></i>`;
  };
  return markup`<img src=${images[number].url} alt="" draggable="false"><i class="lines"
    style="--rows: ${rows}; --columns: ${columns}"></i>${cells.map(drawPatch)}${ring}`;
}

const describeImage = ({ predicted, probabilities }, number) =>
  `Image ${number + 1}: ${predicted[number]} (${formatProbability(probabilities[number])})`;

// The classes of the logit difference, if they are not simply the two predicted classes.
function describeClasses({ predicted, classes, has_change: hasChange, run }) {
  if (!hasChange) return "Both images give the same logits. Choose another image 2.";
  if (predicted[0] !== predicted[1]) return "";
  return `${run} predicts ${predicted[0]} for both images. Therefore, the share measures the logit of ${
    classes[1]
  } minus the logit of ${classes[0]}: relative to ${
    classes[0]
  }, no other logit differs more between the images.`;
}

function create(element) {
  let data = null; // the drawn payload
  const boards = [
    makeElement(markup`<div class="board" tabindex="0" role="application"></div>`),
    makeElement(markup`<div class="board" role="img"></div>`),
  ];
  const rings = boards.map(() => makeElement(markup`<i class="ring" hidden></i>`));
  const place = makeElement(markup`<p class="read" role="status"></p>`); // for screen readers

  const parse = () => parseTokens(store.state[TOKENS], data);
  const set = (tokens) => store.set({ [TOKENS]: formatTokens({ ...parse(), ...tokens }, data.grid) });

  function drawBoards(cells) {
    const { grid: [rows, columns] } = data;
    boards[0].ariaLabel = `${
      describeImage(data, 0)
    }, with ${rows} × ${columns} patches, ${cells.length} of them replaced. Arrow keys move the cursor, and Enter replaces or restores a patch.`;
    boards[1].ariaLabel = describeImage(data, 1);
    boards.forEach((board, i) => draw(drawImage(data, i, cells, rings[i]), board));
  }

  function drawToggle(text, id, isPressed, toggle) {
    return markup`<button type="button" class="vd-download" id=${id} aria-pressed=${
      String(isPressed)
    } @click=${toggle}>${text}</button>`;
  }

  function drawSpecial({ special }) {
    const all = data.special.map((_, i) => i);
    const [hasFirst, hasAll] = [special.includes(0), special.length === all.length];
    const isClassToken = data.special[0] === "class token";
    return [
      isClassToken
        ? drawToggle(
          "Class token",
          "patching-class-token",
          hasFirst,
          () => set({ special: hasFirst ? special.filter((each) => each) : [0, ...special] }),
        )
        : nothing,
      all.length > Number(isClassToken)
        ? drawToggle(
          "All special tokens",
          "patching-special",
          hasAll,
          () => set({ special: hasAll ? [] : all }),
        )
        : nothing,
    ];
  }

  function drawButtons({ special, cells }) {
    const all = data.grid[0] * data.grid[1];
    const hasAll = cells.length === all;
    return markup`<div class="actions">${drawSpecial({ special })}${
      drawToggle("All patches", "patching-all", hasAll, () =>
        set({ cells: hasAll ? [] : [...Array(all).keys()] }))
    }<button type="button" class="vd-download" ?disabled=${!special.length && !cells.length}
      @click=${() => {
      store.set({ [TOKENS]: "" });
      boards[0].focus({ preventScroll: true }); // a disabled button loses the focus
    }}>Restore all</button></div>`;
  }

  function drawLayer(layer) {
    return markup`<label class="layer">Replace <b>${
      formatLayer(layer)
    }</b> <input type="range" id="patching-layer"
      min="0" max=${data.layers} .value=${String(layer)} aria-valuetext=${formatLayer(layer)}
      @input=${({ target }) => store.set({ [LAYER]: target.valueAsNumber })}></label>`;
  }

  function render(payload, state) {
    data = payload;
    const tokens = parse();
    const note = describeClasses(data);
    drawBoards(tokens.cells);
    draw(
      markup`<div class="pair">
        <figure>${boards[0]}<figcaption>${describeImage(data, 0)}</figcaption></figure>
        <figure>${boards[1]}<figcaption>${describeImage(data, 1)} ${
        drawSelect(IMAGE, data.options, data.source, "second")
      }</figcaption></figure></div>${place}${note ? markup`<p class="vd-said">${note}</p>` : nothing}
      ${drawLayer(Math.min(state[LAYER], data.layers))}${drawButtons(tokens)}`,
      element,
    );
    element.querySelector(".second").ariaLabel = "Image 2";
  }

  function describeCell(cell) {
    const columns = data.grid[1];
    const name = `Row ${Math.floor(cell / columns) + 1}, column ${(cell % columns) + 1}`;
    return parse().cells.includes(cell) ? `${name}: replaced` : name;
  }

  const handlers = {
    getGrid: () => data?.grid,
    isMarked: (cell) => parse().cells.includes(cell),
    point(cell) {
      rings.forEach((ring) => placeRing(ring, data.grid, cell ?? undefined));
      place.textContent = cell === null ? "" : describeCell(cell);
    },
    show: (stroke) => drawBoards(stroke ? applyStroke(parse().cells, stroke) : parse().cells),
    apply: (stroke) => set({ cells: applyStroke(parse().cells, stroke) }),
  };
  boards.forEach((board) => addStrokes(board, handlers));
  return { render };
}

store.define("patching.images", { skeleton: "figures", follows: [LAYER, TOKENS], create });
