"""Predictions of all models for one image, as cards; a ground truth image has its own model.

The payload, with the most probable class first:

    {"models": [see `describe_prediction`, ...], "label": the true class or None,
     "problems": [...]}

On a static site, the payload of an own image also has "offer", which names the models that are not
loaded.
"""

import torch
from torch import Tensor

from vitdemo.context import AppContext, Prediction, read_test_accuracy
from vitdemo.metrics import top_k_classes
from vitdemo.metrics.calibration_report import get_true_class_target
from vitdemo.metrics.prediction_sets import COVERAGE_PERCENT, read_threshold, select_classes
from vitdemo.metrics.training_progress import recipe_field
from vitdemo.models import features_and_logits
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import list_image_runs, load_square, round_numbers
from vitdemo.page.feature import Feature
from vitdemo.page.graph import Choice, Graph, Numbers, Outputs
from vitdemo.page.image_sources import TRUE_CLASS_KEY
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import Run
from vitdemo.runs.reference import RATHER_UNLIKE_PERCENTILE, UNLIKE_PERCENTILE, read_reference

VIEW = "predictions"
NUM_CARD_CLASSES = 3  # maximum number of classes shown per model
MAX_LISTED_CLASSES = 30  # maximum number of a model's classes that are listed
PROBABILITY_DIGITS, PERCENTILE_DIGITS = 6, 2
DATASET_TITLES = {"cifar10": "CIFAR-10"}


@needs(keys.IMAGE)
def payload(context: AppContext, state: ViewState) -> dict:
    image = load_square(context, state.image)
    runs = list_image_runs(context, state.image, context.classifier_runs)
    predictions, problems = context.predict_all(image, runs)
    return to_payload(predictions, problems, image.info.get(TRUE_CLASS_KEY))


def compute_outputs(context: AppContext, run: Run, state: ViewState, crop: Tensor) -> Outputs:
    """Compute the parts of `describe_prediction` that depend on the image: see `page.graph`."""
    model = context.load_model(run)
    features, logits = features_and_logits(model, run.preprocessing(crop[None]))
    probabilities = logits[0].softmax(0)
    values, indices = probabilities.topk(min(NUM_CARD_CLASSES, len(run.classes)))
    outputs: Outputs = {
        "classes": Choice(indices, run.classes),
        "probabilities": Numbers(values, PROBABILITY_DIGITS),
    }
    if (threshold := read_threshold(run)) is not None:
        sorted_values, order = probabilities.topk(len(run.classes))
        is_first = torch.arange(len(order), device=order.device) == 0
        chosen = torch.where(is_first | (sorted_values >= threshold), order, -1)
        outputs["set.classes"] = Choice(chosen, run.classes)
    if reference := read_reference(run):
        outputs["percentile"] = Numbers(reference.percentile(features[0]), PERCENTILE_DIGITS)
    return outputs


FEATURE = Feature({VIEW: payload}, graphs={VIEW: Graph(compute_outputs, models="models")})


def to_payload(
    predictions: list[Prediction], problems: list[str], label: str | None = None
) -> dict:
    """Return the payload of predictions, an error message per failed model, and the true class."""
    return {
        "models": [describe_prediction(each, label) for each in predictions],
        "label": label,
        "problems": problems,
    }


def describe_prediction(prediction: Prediction, label: str | None) -> dict:
    """Return the most probable classes, and the figures of the run.

    `label` is None if the run does not have the true class, and `known` is None if it has many
    classes. `set` is the prediction set, see `describe_set`. `percentile` is the similarity to the
    run's training images; below `unlike` and `rather_unlike`, the image gets a warning. `target` is
    the training target of the true class.
    """
    run = prediction.run
    indices, values = top_k_classes(prediction.probabilities, NUM_CARD_CLASSES)
    smoothing = recipe_field(run, "label_smoothing")
    return {
        "run": run.name,
        "summary": run.config["recipe"].get("summary") or run.spec.family,
        "parameters": run.config.get("parameters"),
        "accuracy": read_test_accuracy(run),
        "is_cross_validated": run.is_cross_validated,
        "dataset": run.dataset_name and DATASET_TITLES.get(run.dataset_name, run.dataset_name),
        "classes": [run.classes[i] for i in indices],
        "probabilities": round_numbers(values, PROBABILITY_DIGITS),
        "label": label if label in run.classes else None,
        "set": describe_set(prediction),
        "percentile": prediction.similarity_percentile,
        "unlike": UNLIKE_PERCENTILE,
        "rather_unlike": RATHER_UNLIKE_PERCENTILE,
        "class_count": len(run.classes),
        "known": list(run.classes) if len(run.classes) <= MAX_LISTED_CLASSES else None,
        "smoothing": smoothing,
        "target": get_true_class_target(run) if smoothing else 1.0,
    }


def describe_set(prediction: Prediction) -> dict | None:
    """Return the classes of the prediction set, the most probable first, and its coverage.

    See `vitdemo.metrics.prediction_sets`. Returns None for a run without a threshold.
    """
    run, probabilities = prediction.run, prediction.probabilities
    if (threshold := read_threshold(run)) is None:
        return None
    (selected,) = select_classes(probabilities[None], threshold)
    order = [i for i in (-probabilities).argsort(kind="stable") if selected[i]]
    return {"percent": COVERAGE_PERCENT, "classes": [run.classes[i] for i in order]}
