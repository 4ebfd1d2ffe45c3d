// The maps of several models for one image, in a fold below the attention maps.
import { createDocument } from "../../components/documents.js";
import { defineFold } from "../../components/fold.js";
import { formatProbability } from "../../components/shared.js";
import * as store from "../../store.js";

const NO_MODEL = "Choose a model above.";
const COLOUR_LABELS = ["opposes the class", "supports the class"];
const NO_CLASSES = "no classes (no classifier with known labels)";
const ABOUT =
  "A relative depth of 100% is the last layer of each model. Convolutional models have no attention and are shown with Grad-CAM, which depends on the class. Each map is scaled to its own maximum, so compare colours within a map, not between models.";

function describeMap({ method, title, layer, layers, class: name }) {
  if (method === "attention") return `Attention, layer ${layer} of ${layers}`;
  if (method === "rollout") return `Rollout, layers 1 to ${layer} of ${layers}`;
  return `${title} for ${name}`;
}

const describeMethod = ({ method, caption, reader }) =>
  method === "attention"
    ? `Attention of ${reader} to each patch in this layer (mean of the heads). ${caption} The map is the same for every class.`
    : caption;

function makePanel(map) {
  const { run, seen, values, signed, classes, probabilities } = map;
  const title = describeMap(map);
  const likely = classes.map((name, i) => `${name} ${formatProbability(probabilities[i])}`).join(", ");
  const fraction = map.layer !== null;
  const alt = `${run}: ${title}`;
  return { title, values, signed, seen, alt, head: run, lines: [likely || NO_CLASSES], fraction };
}

function listBlocks({ maps, problems }) {
  const sentence = problems.join(" ");
  if (!maps.length) return [{ kind: "Notice", text: sentence || NO_MODEL }];
  const captions = new Set([ABOUT, ...maps.map(describeMethod)]);
  const pieces = [...captions].map((text) => ({ kind: "Text", text, quiet: true }));
  return [
    { kind: "MapRow", panels: maps.map(makePanel), colour_labels: COLOUR_LABELS, sentence },
    { kind: "Details", title: "About", pieces },
  ];
}

function create(element) {
  element.classList.add("article");
  const draw = createDocument(element);
  return { render: (data) => draw(listBlocks(data)) };
}

store.define("side_by_side", { skeleton: "figures", create });

defineFold("side_fold", {
  ...{ key: "compare", open: true, closed: false },
  title: "Compare with other models",
  content: "#side",
});
