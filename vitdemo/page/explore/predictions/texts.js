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

// Notes that explain the numbers of these models to newcomers.
export function listNotes({ models }) {
  const bySet = new Map(models.filter(({ known }) => known).map((model) => [model.known.join(), model]));
  return [
    ...models.map(describeModel),
    ...[...bySet.values()].map(describeKnown),
    ...models.filter(({ smoothing }) => smoothing).map(describeSmoothing),
  ];
}
