// The filters of the patch embedding, or their principal components, with a number below each.
import { createDocument } from "../../../components/documents.js";
import * as store from "../../../store.js";

const TILE_WIDTH = 56; // side of a tile in pixels
const TEXTS = { // by value of the state key
  "Principal components": {
    describe: (count, side) =>
      `Principal components of ${count} filters of ${side} × ${side} pixels, with the explained variance.`,
    about:
      "Grey is a weight of 0. The components show which patterns the model can distinguish in a patch, not which patterns it uses. The sign of a component is arbitrary.",
    format: (share) => `${(100 * share).toFixed(1)}%`,
    label: (i, text) => `Component ${i}: ${text} of the variance`,
  },
  "The strongest filters": {
    describe: (count, side) =>
      `The filters with the largest norms, of ${count} filters of ${side} × ${side} pixels, with their norms.`,
    about:
      "Each filter is scaled to its own largest weight. Grey is a weight of 0. A filter responds to patterns that resemble it. A filter with a large norm is not necessarily important.",
    format: (norm) => norm.toFixed(2),
    label: (i, text) => `Filter ${i}: norm ${text}`,
  },
};

function makeBlocks({ shown, count, side, numbers, sheet }) {
  const { about, describe, format, label } = TEXTS[shown];
  const captions = numbers.map((number) => (number === null ? "–" : format(number))); // null: NaN
  return [
    { kind: "Text", text: describe(count, side), quiet: true },
    {
      kind: "ImageRow",
      items: captions.map((caption, i) => ({ alt: label(i + 1, caption), caption })),
      sheet,
      width: TILE_WIDTH,
    },
    { kind: "Details", title: "About", pieces: [{ kind: "Text", text: about, quiet: true }] },
  ];
}

store.define("patch_embedding", {
  skeleton: "tiles",
  create(element) {
    element.classList.add("article");
    const draw = createDocument(element);
    return { render: (data) => draw(makeBlocks(data)) };
  },
});
