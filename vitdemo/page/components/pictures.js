// Draws the images and maps of pictures.py side by side.
import { TEXTS } from "../texts.js";
import { make, paint, rove } from "./shared.js";
import { table } from "./table.js";

// Image `at` of `count` images that are side by side in one file.
function cut(url, at, count, label, chosen, pick) {
  const along = count > 1 ? (100 * at) / (count - 1) : 0;
  const style = `background-image: url("${url}"); background-size: ${
    100 * count
  }% 100%; background-position: ${along}% 0`;
  if (!chosen) return make("div", { className: "vd-cut", role: "img", "aria-label": label, style });
  const button = make("button", {
    type: "button",
    className: "vd-cut",
    "aria-label": label,
    "data-pick": chosen,
    style,
  });
  button.addEventListener("click", () => pick?.(chosen));
  return button;
}

function map({ values, signed, alt }) {
  const canvas = make("canvas", { role: "img", "aria-label": alt });
  paint(canvas, values.flat(), [values.length, values[0].length], { signed });
  return canvas;
}

function numbers(values) {
  const rows = () => values.map((line, i) => [String(i + 1), ...line.map((value) => value.toFixed(2))]);
  const folded = make(
    "details",
    { className: "vd-numbers" },
    make("summary", { text: TEXTS.pictures.values }),
  );
  folded.addEventListener("toggle", () => {
    if (folded.childElementCount === 1) {
      folded.append(table({ columns: ["", ...values[0].map((_, i) => String(i + 1))], rows: rows() }));
    }
  });
  return folded;
}

export function pictures({ items, sheet, width }, pick) {
  const count = items.filter(({ values }) => !values).length;
  let at = 0;
  const figures = items.map((item) => {
    const drawn = item.values ? map(item) : cut(sheet.url, at++, count, item.alt, item.pick, pick);
    const note = item.note ? make("small", { text: ` ${item.note}` }) : null;
    return make(
      "figure",
      {},
      drawn,
      make("figcaption", {}, item.caption ?? "", note),
      item.values ? numbers(item.values) : null,
    );
  });
  const buttons = figures.map((each) => each.firstChild).filter((each) => each.tagName === "BUTTON");
  const row = make("div", { className: "vd-row", style: `--vd-width: ${width}px` }, ...figures);
  if (buttons.length) rove(row, () => buttons, () => buttons.length)(buttons[0]);
  return row;
}
