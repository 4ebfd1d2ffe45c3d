// The prediction for image 1 with the replaced tokens, compared with as many random patches.
import { createDocument } from "../../../components/documents.js";
import { formatSigned } from "../../../components/grid.js";
import * as store from "../../../store.js";
import { describePrediction } from "../shared.js";
import { fillPlural } from "../../../texts.js";

const MAX_NAMES = 3; // special tokens that are named
const NO_TOKEN = "No token is replaced. Click or drag over patches of an image, or choose a button above.";

function describeTokens({ special, patches, all }) {
  const named = special.length > MAX_NAMES
    ? `${special.length} special tokens`
    : special.map((name) => `the ${name}`).join(", ");
  const cells = patches === all
    ? `all ${all} patches`
    : fillPlural(patches, "{count} patch", "{count} patches");
  return [special.length && named, patches && cells].filter(Boolean).join(" and ");
}

const describeLayer = (layer) => (layer ? `after layer ${layer}` : "before layer 1");

function describeShare({ share, random, draws, tokens: { special, patches } }) {
  const own = `Share of the change to image 2: **${formatSigned(share)}**.`;
  if (!random) return own;
  const [mean, low, high] = random.map((each) => formatSigned(each));
  const count = special.length + patches;
  const drawn = fillPlural(count, "One random patch instead", "{count} random patches instead");
  return `${own} ${drawn}: ${mean} on average (${low} to ${high}, ${draws} draws).`;
}

function listBlocks(data) {
  const { tokens, layer, classes, before, now } = data;
  if (!tokens.special.length && !tokens.patches) return [{ kind: "Text", text: NO_TOKEN, told: true }];
  return [
    { kind: "Text", text: `${describePrediction(data)} ${describeShare(data)}`, told: true },
    {
      kind: "ProbabilityChange",
      title: `Image 1 with ${describeTokens(tokens)} of image 2, ${describeLayer(layer)}`,
      classes,
      before,
      now,
      heads: ["image 1", "replaced"],
    },
  ];
}

store.define("patching.prediction", {
  create(element) {
    element.classList.add("article");
    const draw = createDocument(element);
    return { render: (data) => draw(listBlocks(data)) };
  },
});
