// The Errors tab: buttons that filter test images, and the gallery of these images.
import { defineGallery, galleryIn } from "../../components/gallery.js";
import { make, notice, redraw, rove } from "../../components/shared.js";
import * as store from "../../store.js";
import { fillParts, TEXTS } from "../../texts.js";

const texts = TEXTS.errors;
const KINDS = ["errors", "right", "all", "only_right", "all_wrong", "label_errors"];
const DEFAULT_ORDER = "most_confident";
const ANY_CLASS = { "errors.true": "", "errors.predicted": "", "errors.both": false };
const NO_FILTER = { ...ANY_CLASS, "errors.low": 0, "errors.high": 100 }; // values that exclude no image
const MODEL = ["results.model"];
const FILTERS = [...MODEL, ...Object.keys(NO_FILTER)];
const number = new Intl.NumberFormat("en");

store.defineParam("errors.kind", { start: KINDS[0], parse: (text) => KINDS.find((kind) => kind === text) });
defineGallery("errors", [...FILTERS, "errors.kind", "errors.order"]);

const change = (values) =>
  store.updateControls(Object.fromEntries(Object.entries(values).map(([name, value]) => [name, { value }])));

// Another model may have other classes, unless the same change chooses the classes.
store.watch(["results.model"], (_, changes) => {
  if (!Object.keys(ANY_CLASS).some((name) => name in changes)) change(ANY_CLASS);
});

// The order "likeliest label error first" is only used for label errors.
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

// Add a row of buttons with counts to `place`. Return a function that draws chips; `isPressed(chip)` marks the pressed ones.
function chipsIn(place, group, choose) {
  const row = make("div", { className: "chips", role: "group", "aria-label": group });
  const buttons = () => [...row.children];
  const inARow = () =>
    buttons().filter((button) => button.offsetTop === row.firstElementChild.offsetTop).length;
  const settle = rove(row, buttons, inARow, true);
  place.append(row);

  function button(chip, pressed) {
    const { pick, words, count, off, spoken } = chip;
    const made = make(
      "button",
      {
        type: "button",
        "data-pick": pick,
        "aria-pressed": String(pressed),
        "aria-label": spoken,
        title: off || spoken,
        disabled: Boolean(off),
      },
      `${words} `,
      make("b", { text: number.format(count) }),
    );
    made.addEventListener("click", () => choose(chip));
    return made;
  }

  return (chips, isPressed) => {
    redraw(row, ...chips.map((chip) => button(chip, isPressed(chip))));
    settle(
      buttons().find((made) => made === document.activeElement) ??
        buttons().find((made) => made.matches("[aria-pressed=true]")) ?? buttons()[0],
    );
  };
}

function clearing(words) {
  const clear = make("button", { type: "button", text: texts.clear });
  clear.addEventListener("click", () => change(NO_FILTER));
  return fillParts(texts.filter, { filters: make("strong", { text: words }), clear });
}

store.define("errors_kinds", {
  needs: FILTERS,
  follows: ["errors.kind"],
  create(element) {
    const drawChips = chipsIn(element, texts.kinds, ({ pick }) => chooseKind(pick));
    const only = make("p", { className: "only", role: "status", hidden: true });
    const words = make("div", { className: "words" });
    element.append(only, words);
    function draw({ chips, only: filters, messages }, kind, sentence) {
      drawChips(chips, ({ pick }) => pick === kind);
      only.hidden = !filters;
      only.replaceChildren(...(filters ? clearing(filters) : []));
      const lines = [...chips.filter(({ pick }) => pick === kind).map(({ text }) => text), ...messages];
      words.replaceChildren(
        ...(sentence ? [notice(sentence)] : []),
        ...lines.map((text) => make("p", { text })),
      );
    }
    return {
      render: (data, state) => draw(data, state["errors.kind"]),
      showError: (message) => draw({ chips: [], only: "", messages: [] }, null, message),
    };
  },
});

store.define("errors_pairs", {
  needs: MODEL,
  follows: ["errors.true", "errors.predicted", "errors.both"],
  create(element) {
    const title = make("h2", { text: texts.pairs_title, hidden: true });
    element.append(title);
    const drawChips = chipsIn(element, texts.pairs, ({ classes }) => choosePair(classes));
    function draw(chips, state) {
      title.hidden = !chips.length;
      drawChips(chips, ({ classes }) => isChosen(classes, state));
    }
    return { render: ({ chips }, state) => draw(chips, state), showError: () => draw([]) };
  },
});

store.define("errors_pictures", {
  skeleton: "tiles",
  needs: [...FILTERS, "errors.kind", "errors.order", "errors.page"],
  follows: ["errors.all_models"],
  create(element) {
    const draw = galleryIn(element, "errors");
    return { render: draw, showError: () => draw(null) }; // errors_kinds shows the message
  },
});
