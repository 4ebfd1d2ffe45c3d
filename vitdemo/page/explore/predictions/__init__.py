"""Predictions of all models for one image, as cards.

The payload, with the most probable class first:

    {"models": [{"run", "about", "accuracy", "classes", "probabilities", "label", "unusual",
                 "known"}, ...],
     "label": the true class or None, "problems": [...], "notes": [...]}

The "label" of a model is the true class, or None if the model does not have this class. "unusual"
is a warning for an image that is unlike the run's training images, else "".
"""

from vitdemo.context import AppContext, Prediction, read_test_accuracy
from vitdemo.metrics import top_k_classes
from vitdemo.metrics.calibration_report import get_true_class_target
from vitdemo.metrics.training_progress import recipe_field
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import load_square
from vitdemo.page.feature import Feature
from vitdemo.page.image_sources import TRUE_CLASS_KEY
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import Run
from vitdemo.runs.reference import RATHER_UNLIKE_PERCENTILE, UNLIKE_PERCENTILE

VIEW = "predictions"
NUM_CARD_CLASSES = 3  # maximum number of classes shown per model
MAX_NOTED_CLASSES = 30  # maximum number of classes that the notes list
ACCURACY = {  # how the accuracy was measured -> text
    "test": "{percent} test accuracy",
    "cross-validated": "{percent} cross-validated accuracy",
    "none": "not evaluated",
}
ON_DATASET = "{accuracy} on {dataset}"
DATASET_TITLES = {"cifar10": "CIFAR-10"}
KNOWN_CLASSES = "This model has {count} classes: {classes}."
MANY_CLASSES = "This model has {count} classes."


@needs(keys.IMAGE)
def payload(context: AppContext, state: ViewState) -> dict:
    image = load_square(context, state.image)
    predictions, problems = context.predict_all(image, context.classifier_runs())
    return to_payload(predictions, problems, image.info.get(TRUE_CLASS_KEY))


FEATURE = Feature({VIEW: payload})


def to_payload(
    predictions: list[Prediction], problems: list[str], label: str | None = None
) -> dict:
    """Return the payload of predictions, an error message per failed model, and the true class."""
    cards = [_card(answer, label) for answer in predictions]
    notes = prediction_notes([answer.run for answer in predictions])
    return {
        "models": cards,
        "label": label,
        "problems": problems,
        "notes": [*(card["about"] for card in cards), *notes],
    }


def _card(answer: Prediction, label: str | None) -> dict:
    indices, values = top_k_classes(answer.probabilities, NUM_CARD_CLASSES)
    accuracy = describe_accuracy(answer.run)
    return {
        "run": answer.run.name,
        "about": describe_run(answer.run, accuracy),
        "accuracy": accuracy,
        "classes": [answer.run.classes[i] for i in indices],
        "probabilities": [round(float(value), 6) for value in values],
        "label": label if label in answer.run.classes else None,
        "unusual": warn_if_unusual(answer),
        "known": describe_classes(answer.run),
    }


def warn_if_unusual(answer: Prediction) -> str:
    """Return a warning for an image that is unlike the run's training images, else ""."""
    percentile = answer.similarity_percentile
    if percentile is None or percentile >= RATHER_UNLIKE_PERCENTILE:
        return ""
    share = f"{int(100 - percentile)}% of" if percentile > 0 else "all"
    start = "Unlike" if percentile < UNLIKE_PERCENTILE else "Rather unlike"
    return f"{start} the training images: less similar to them than {share} validation images."


def describe_classes(run: Run) -> str:
    if len(run.classes) <= MAX_NOTED_CLASSES:
        return KNOWN_CLASSES.format(count=len(run.classes), classes=", ".join(run.classes))
    return MANY_CLASSES.format(count=f"{len(run.classes):,}")


def describe_accuracy(run: Run) -> str:
    """Return the accuracy of a run on images that were not used for training, as text."""
    right = read_test_accuracy(run)
    if right is None:
        return ACCURACY["none"]
    measured = "cross-validated" if run.is_cross_validated else "test"
    accuracy = ACCURACY[measured].format(percent=f"{100 * right:.1f}%")
    if (name := run.dataset_name) is None:
        return accuracy
    return ON_DATASET.format(accuracy=accuracy, dataset=DATASET_TITLES.get(name, name))


def describe_run(run: Run, accuracy: str) -> str:
    """Describe a run in one line: recipe, number of parameters, and `accuracy`."""
    words = [run.config["recipe"].get("summary") or run.spec.family, accuracy]
    if "parameters" in run.config:
        words.insert(1, f"{run.config['parameters'] / 1e6:.1f} M parameters")
    return f"{run.name}: {', '.join(words)}."


def prediction_notes(runs: list[Run]) -> list[str]:
    """Return notes that explain the numbers of these models to newcomers."""
    found = []
    for classes in dict.fromkeys(run.classes for run in runs):
        if len(classes) <= MAX_NOTED_CLASSES:
            found.append(
                f"The models have {len(classes)} classes: {', '.join(classes)}. Every image is "
                "assigned to one of these classes, so a model's percentages add up to 100. A note "
                "marks an image that is less similar to the training images than "
                f"{100 - RATHER_UNLIKE_PERCENTILE:.0f}% of the validation images. An image of "
                "another class may have no note, and an unusual image of these classes may have a "
                "note."
            )
    for run in runs:
        if smoothing := recipe_field(run, "label_smoothing"):
            found.append(
                f"{run.name} was trained with label smoothing {smoothing:g}: its target for the "
                f"true class is {100 * get_true_class_target(run):.0f}%, not 100%."
            )
    return found
