// The Errors tab: buttons that filter test images, and the gallery of these images.
import { createGallery, resetPageOf } from "../../components/gallery.js";
import { createRoving } from "../../components/shared.js";
import { markup, nothing, render } from "../../markup.js";
import * as store from "../../store.js";

const DEFAULT_ORDER = "most_confident";
const ANY_CLASS = { "errors.true": "", "errors.predicted": "", "errors.both": false };
const NO_FILTER = { ...ANY_CLASS, "errors.low": 0, "errors.high": 100 }; // values that exclude no image
const MODEL = ["results.tests", "results.model"];
const FILTERS = [...MODEL, ...Object.keys(NO_FILTER)];
const number = new Intl.NumberFormat("en");

resetPageOf("errors", [...FILTERS, "errors.kind", "errors.order"]);

const change = (values) =>
  store.updateControls(Object.fromEntries(Object.entries(values).map(([name, value]) => [name, { value }])));

// Another model may have other classes, unless the same change chooses the classes.
store.watch(MODEL, (_, changes) => {
  if (!Object.keys(ANY_CLASS).some((name) => name in changes)) change(ANY_CLASS);
});

// The order "likeliest label error first" is used only for label errors.
function chooseKind(kind) {
  store.set({ "errors.kind": kind });
  if (kind === "label_errors") change({ "errors.order": "doubtful_label" });
  else if (store.state["errors.order"] === "doubtful_label") change({ "errors.order": DEFAULT_ORDER });
}

const isChosen = ([first, second], state) =>
  state["errors.both"] &&
  [[first, second], [second, first]].some(([one, other]) =>
    one === state["errors.true"] && other === state["errors.predicted"]
  );

// A second click on a pair of classes resets the filters.
function choosePair([first, second]) {
  if (isChosen([first, second], store.state)) return change(NO_FILTER);
  store.set({ "errors.kind": "errors" });
  change({
    ...NO_FILTER,
    "errors.true": first,
    "errors.predicted": second,
    "errors.both": true,
    "errors.order": DEFAULT_ORDER,
  });
}

// A row of buttons with counts; `isPressed(chip)` marks the pressed buttons.
function drawChips(chips, group, isPressed, choose) {
  const countInRow = (buttons) =>
    buttons.filter(({ offsetTop }) => offsetTop === buttons[0].offsetTop).length;
  const keys = createRoving((buttons) => countInRow(buttons), true);
  const stop = chips.find(isPressed) ?? chips[0];
  const drawButton = (chip) => {
    const { pick, label, count, off, spoken } = chip;
    return markup`<button type="button" data-pick=${pick} aria-pressed=${String(isPressed(chip))}
      aria-label=${spoken ?? nothing} title=${off || spoken || nothing} ?disabled=${Boolean(off)}
      tabindex=${chip === stop ? 0 : -1} @click=${() => choose(chip)}>${`${label} `}<b>${
      number.format(count)
    }</b></button>`;
  };
  return markup`<div class="chips" role="group" aria-label=${group} @focusin=${keys.focus}
    @keydown=${keys.press}>${chips.map(drawButton)}</div>`;
}

function drawFilter(filters) {
  const clear = markup`<button type="button" @click=${() => change(NO_FILTER)}>Clear filters</button>`;
  return markup`Filter: <strong>${filters}</strong>. ${clear}`;
}

store.define("errors_kinds", {
  skeleton: "rows",
  follows: ["errors.kind"],
  create(element) {
    function draw({ chips, only: filters, messages }, kind) {
      const row = drawChips(
        chips,
        "Images to show",
        ({ pick }) => pick === kind,
        ({ pick }) => chooseKind(pick),
      );
      const lines = [...chips.filter(({ pick }) => pick === kind).map(({ text }) => text), ...messages];
      render(
        markup`${row}
          <p class="only" role="status" ?hidden=${!filters}>${filters ? drawFilter(filters) : nothing}</p>
          <div class="words">${lines.map((text) => markup`<p>${text}</p>`)}</div>`,
        element,
      );
    }
    return {
      render: (data, state) => draw(data, state["errors.kind"]),
      showError: () => draw({ chips: [], only: "", messages: [] }, null), // errors_images shows the message
    };
  },
});

store.define("errors_pairs", {
  follows: ["errors.true", "errors.predicted", "errors.both"],
  create(element) {
    function draw(chips, state) {
      const isPressed = ({ classes }) => isChosen(classes, state);
      const row = drawChips(chips, "Pairs of classes", isPressed, ({ classes }) => choosePair(classes));
      render(markup`<h2 ?hidden=${!chips.length}>Most confused pairs of classes</h2>${row}`, element);
    }
    return { render: ({ chips }, state) => draw(chips, state), showError: () => draw([]) };
  },
});

store.define("errors_images", {
  skeleton: "tiles",
  follows: ["errors.all_models"],
  create(element) {
    return { render: createGallery(element, "errors") };
  },
});
