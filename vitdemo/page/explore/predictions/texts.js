// Sentences about the predictions and their models.
import { formatProbability } from "../../components/shared.js";
import { fillPlural } from "../../texts.js";

// A warning for an image that is unlike the model's training images, or "". The `percentile` is the percentage of validation
// images that are less similar to the training images. The two other fields are the limits of the warnings.
export function describeUnusual({ percentile, unlike, rather_unlike: ratherUnlike }) {
  if (percentile === null || percentile >= ratherUnlike) return "";
  const share = percentile > 0 ? `${Math.trunc(100 - percentile)}% of` : "all";
  const start = percentile < unlike ? "Unlike" : "Rather unlike";
  return `${start} the training images: less similar to them than ${share} validation images.`;
}

// The accuracy on images that were not used for training.
export function describeAccuracy({ accuracy, is_cross_validated: isCrossValidated, dataset }) {
  if (accuracy === null) return "not evaluated";
  const measured = `${formatProbability(accuracy)} ${isCrossValidated ? "cross-validated" : "test"} accuracy`;
  return dataset === null ? measured : `${measured} on ${dataset}`;
}

const MAX_SET_NAMES = 4; // classes of a prediction set that are named

// The prediction set, such as "95% set: cat, dog", or "" for a model without one. The set does not hold for an image that
// is unlike the training images.
export function describeSet(model) {
  if (!model.set || describeUnusual(model)) return "";
  const { percent, classes } = model.set;
  const more = classes.length - MAX_SET_NAMES;
  const names = classes.slice(0, MAX_SET_NAMES).join(", ");
  return `${percent}% set: ${names}${more > 0 ? ` and ${more} more` : ""}`;
}

// One line about a model.
export function describeModel(model) {
  const { run, summary, parameters } = model;
  const size = parameters === null ? [] : [`${(parameters / 1e6).toFixed(1)} M parameters`];
  return `${run}: ${[summary, ...size, describeAccuracy(model)].join(", ")}.`;
}

// Models with different classes, for example custom classes, do not agree even if the names of two classes are equal.
const listKnown = ({ known, class_count: count }) => (known ? known.toSorted() : [count]).join();

// How many of the `others` predict the class of the `chosen` model.
export function describeOthers(chosen, others) {
  if (!chosen) return fillPlural(others.length, "1 model", "{count} models");
  const similar = others.filter((other) => listKnown(other) === listKnown(chosen));
  const different = others.length - similar.length;
  const name = fillPlural(similar.length, "1 other model", "{count} other models");
  const same = similar.filter(({ classes }) => classes[0] === chosen.classes[0]).length;
  const also = `${same === similar.length ? "" : `${same} `}also ${chosen.classes[0]}`;
  return [
    ...(similar.length ? [`${name}: ${same ? also : "other predictions"}`] : []),
    ...(different
      ? [fillPlural(different, "1 model of other classes", "{count} models of other classes")]
      : []),
  ].join("; ");
}

const describeKnown = ({ known, rather_unlike: limit }) =>
  `The models have ${known.length} classes: ${
    known.join(", ")
  }. Every image is assigned to one of these classes, so a model's percentages add up to 100. A note marks an image that is less similar to the training images than ${
    100 - limit
  }% of the validation images. An image of another class may have no note, and an unusual image of these classes may have a note.`;

const describeSmoothing = ({ run, smoothing, target }) =>
  `${run} was trained with label smoothing ${smoothing}: its target for the true class is ${
    (100 * target).toFixed(0)
  }%, not 100%.`;

// The explanation of the prediction sets of models; see vitdemo/metrics/prediction_sets.py.
function describeSets({ percent }) {
  return `The ${percent}% set contains the predicted class, and all classes whose probability reaches a threshold. Of the images like the validation images, at least ${percent}% have their true class in this set (split conformal prediction). For custom classes, the threshold is from cross-validation.`;
}

// Notes that explain the numbers of these models to newcomers.
export function listNotes({ models }) {
  const bySet = new Map(models.filter(({ known }) => known).map((model) => [model.known.join(), model]));
  return [
    ...models.map(describeModel),
    ...[...bySet.values()].map(describeKnown),
    ...models.filter(({ set }) => set).slice(0, 1).map(({ set }) => describeSets(set)),
    ...models.filter(({ smoothing }) => smoothing).map(describeSmoothing),
  ];
}
