// Table of coloured cells with a number or a name in each; cells with a `pick` are real buttons.
import { TEXTS } from "../texts.js";
import { make, rove, shade } from "./shared.js";
import { table } from "./table.js";

// Black or white text, whichever has more contrast on the colour (WCAG 2.1, relative luminance).
function ink(rgb) {
  const [red, green, blue] = rgb.map((
    channel,
  ) => (channel <= 10 ? channel / 3294.6 : ((channel / 255 + 0.055) / 1.055) ** 2.4));
  return (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05) ** 2 > 0.05 * 1.05 ? "#000" : "#fff";
}
export const painted = (rgb) => `background: rgb(${rgb.join(" ")}); color: ${ink(rgb)}`;
export const fromHex = (colour) => [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));

// Number with sign, as +0.25 or −0.25; 0.00 without a sign.
export function signed(value, digits = 2) {
  const text = Math.abs(value).toFixed(digits);
  return (Number(text) === 0 ? "" : value > 0 ? "+" : "−") + text;
}

function part(tag, { text, label, rgb, pick, pressed }, picked) {
  const style = rgb ? painted(rgb) : null;
  if (pick === undefined) return make(tag, { text, title: label, style });
  const looks = {
    "data-pick": pick,
    "aria-pressed": String(Boolean(pressed)),
    "aria-label": label,
    title: label,
    style,
  };
  const button = make("button", { type: "button", text, ...looks });
  button.addEventListener("click", () => picked(pick));
  return make(tag, {}, button);
}

// `rows` are { name, cells }, `columns` are the cells of the head, `corner` is the first heading.
// A cell is { text, label, rgb, pick, pressed }; `picked` is called with the pick of its button.
export function grid({ caption, corner = null, columns = [], rows, look = "" }, picked) {
  const named = (text, scope) => make(text ? "th" : "td", text ? { text, scope } : {});
  const lines = rows.map(({ name, cells }) =>
    make("tr", {}, name ? named(name, "row") : null, ...cells.map((cell) => part("td", cell, picked)))
  );
  const heads = columns.map((cell) => Object.assign(part("th", cell, picked), { scope: "col" }));
  const head = heads.length
    ? make("thead", {}, make("tr", {}, corner === null ? null : named(corner, "col"), ...heads))
    : null;
  const drawn = make(
    "table",
    { className: `vd-cells ${look}` },
    make("caption", { text: caption }),
    head,
    make("tbody", {}, ...lines),
  );
  const buttons = [...drawn.querySelectorAll("[data-pick]")];
  const across = heads.some((each) => each.firstElementChild) ? columns.length : rows[0]?.cells.length;
  const settle = rove(drawn, () => buttons, () => across);
  settle(buttons.find((button) => button.matches("[aria-pressed=true]")) ?? buttons[0]);
  // Without buttons, the keyboard scrolls the table itself.
  return make("div", { className: "vd-scroll", tabIndex: buttons.length ? null : 0 }, drawn);
}

// Legend of signed colours from `from` to `to`, followed by `words`.
export function scale(from, to, words, backwards = false) {
  const stops = Array.from({ length: 9 }, (_, i) => `rgb(${shade((backwards ? 8 - i : i) / 8).join(" ")})`);
  const bar = make("i", {
    className: "vd-ramp",
    style: `background: linear-gradient(to right, ${stops.join(", ")})`,
  });
  return make("div", { className: "vd-legend" }, from, bar, `${to}${words}`);
}

// Folded table of `rows`.
export function folded(title, columns, rows) {
  return make(
    "details",
    { className: "vd-numbers" },
    make("summary", { text: title }),
    table({ columns, rows }),
  );
}

// Caption with an optional badge `label` before it.
export function caption(text, label = "") {
  const badge = label ? [make("b", { className: "vd-badge", text: label }), " "] : [];
  return make("p", { className: "vd-said" }, ...badge, text);
}

// A caption that is hidden until the user opens it.
export const about = (text) =>
  make("details", { className: "vd-numbers" }, make("summary", { text: TEXTS.grid.about }), caption(text));
