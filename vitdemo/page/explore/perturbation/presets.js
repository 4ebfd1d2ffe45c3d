// The original image and the presets of its changes, as buttons with small images. The button of the current changes is
// pressed, and its description is shown below.
import { make, redraw, rove } from "../../components/shared.js";
import * as store from "../../store.js";
import { TEXTS } from "../../texts.js";
import * as imageChanges from "./changes.js";

const texts = TEXTS.perturbation;

function tile({ title, changes }, at, { presets, sheet }) {
  const along = (100 * at) / (presets.length - 1);
  const style = `background-image: url("${sheet.url}"); background-size: ${
    100 * presets.length
  }% 100%; background-position: ${along}% 0`;
  const button = make(
    "button",
    {
      type: "button",
      id: at ? null : "hands-reset",
      "data-pick": title,
      "aria-pressed": String(imageChanges.isApplied(changes)),
    },
    make("i", { className: "vd-cut", style }),
    make("span", { text: title }),
  );
  button.addEventListener("click", () => imageChanges.apply(changes));
  return button;
}

function render(element, data) {
  const tiles = data.presets.map((preset, at) => tile(preset, at, data));
  const current = data.presets.find(({ changes }) => imageChanges.isApplied(changes));
  const row = make("div", { className: "tiles", role: "group", "aria-label": texts.presets }, ...tiles);
  rove(row, () => tiles, () => tiles.length)(tiles.find((each) => each.ariaPressed === "true") ?? tiles[0]);
  redraw(element, row, make("p", { id: "hands-note", role: "status", text: current?.description ?? "" }));
}

store.define("change_presets", {
  skeleton: "tiles",
  needs: ["image"],
  follows: [...imageChanges.KEYS, "removed"],
  render,
});
