// Rows of example images, one row per class. All images are parts of one sheet.
import { make, rove } from "../../../components/shared.js";
import * as store from "../../../store.js";
import { fill, fillPlural, TEXTS } from "../../../texts.js";

const texts = TEXTS.examples;

function button(value, name, number, at) {
  const rows = Math.ceil(value.numbers.flat().length / value.columns);
  const along = (place, all) => (all > 1 ? (100 * place) / (all - 1) : 0);
  const [x, y] = [along(at % value.columns, value.columns), along(Math.floor(at / value.columns), rows)];
  const style = `background-image: url("${value.sheet.url}"); background-size: ${100 * value.columns}% ${
    100 * rows
  }%; background-position: ${x}% ${y}%`;
  const words = fill(texts.image, { name, number });
  const made = make("button", {
    type: "button",
    className: "vd-cut",
    style,
    title: words,
    "aria-label": words,
    "data-pick": number,
  });
  made.addEventListener(
    "click",
    () => store.openImage({ ...value.open, image: { source: `test:${number}`, path: null, at: 0.5 } }),
  );
  return made;
}

store.define("class_examples", {
  skeleton: "tiles",
  needs: ["model"],
  create(element) {
    const about = make("p");
    const grid = make("div", { className: "rows", role: "group", "aria-label": texts.label });
    element.replaceChildren(about, grid);
    const buttons = () => [...grid.querySelectorAll("button")];
    let columns = 1;
    const settle = rove(grid, buttons, () => columns);
    return {
      render(value) {
        columns = value.columns;
        let at = 0;
        about.replaceChildren(fillPlural(texts, "images", value.classes.length));
        grid.className = `rows${value.pixels ? "" : " smooth"}`;
        grid.replaceChildren(
          ...value.classes.map((name, k) =>
            make(
              "div",
              { className: "row" },
              make("strong", { text: name }),
              ...value.numbers[k].map((number) => button(value, name, number, at++)),
            )
          ),
        );
        settle(buttons()[0]);
      },
    };
  },
});
