"""Predictions of all models for one image, as cards.

The payload, with the most probable class first:

    {"models": [{"run", "about", "accuracy", "classes", "probabilities", "label", "unusual"}, ...],
     "label": the true class or None, "problems": [...], "notes": [...]}

A model's own "label" is the true class if the model has this class, else None. "unusual" is a
warning for an image that is unlike the run's training images, "" for others.
"""

from dataclasses import dataclass

from vitdemo.metrics import top_k
from vitdemo.metrics.calibrated_runs import highest_target
from vitdemo.metrics.learning import setting
from vitdemo.page.components import Drawing
from vitdemo.runs import Run
from vitdemo.runs.reference import POSSIBLE_PERCENTILE, PROBABLE_PERCENTILE
from vitdemo.workbench import Answer, final_accuracy

SHOWN = 3  # classes of each model
LISTED = 30  # maximum number of classes that the notes list


@dataclass(frozen=True)
class PictureAnswers:
    """Predictions for an image with the true class `label`, and a message per failed model."""

    answers: list[Answer]
    problems: list[str]
    label: str | None = None


class Answers(Drawing):
    """Cards of predictions, see the module."""

    def drawn(self, value: PictureAnswers) -> dict:
        cards = [_card(answer, value.label) for answer in value.answers]
        return {
            "models": cards,
            "label": value.label,
            "problems": value.problems,
            "notes": [
                *(card["about"] for card in cards),
                *notes([answer.run for answer in value.answers]),
            ],
        }


def _card(answer: Answer, label: str | None) -> dict:
    indices, values = top_k(answer.probabilities, SHOWN)
    accuracy = accuracy_of(answer.run)
    return {
        "run": answer.run.name,
        "about": about(answer.run, accuracy),
        "accuracy": accuracy,
        "classes": [answer.run.classes[i] for i in indices],
        "probabilities": [round(float(value), 6) for value in values],
        "label": label if label in answer.run.classes else None,
        "unusual": warn_if_unusual(answer, label),
    }


def warn_if_unusual(answer: Answer, label: str | None) -> str:
    """Warn of an image that is unlike the run's training images; "" for a usual one.

    The image of a known true class has that class: only its similarity is stated.
    """
    percentile = answer.similarity_percentile
    if percentile is None or percentile >= POSSIBLE_PERCENTILE:
        return ""
    share = f"{int(100 - percentile)}% of" if percentile > 0 else "all"
    words = f"less like the training images than {share} validation images."
    if label in answer.run.classes:
        return words.capitalize()
    likely = "Probably" if percentile < PROBABLE_PERCENTILE else "Possibly"
    return f"{likely} none of the {len(answer.run.classes)} classes: {words}"


def accuracy_of(run: Run) -> str:
    """Return the accuracy on images that were not used for training, in a few words."""
    right = final_accuracy(run)
    if right is None:
        return "not evaluated"
    measured = "cross-validated" if "own_classes" in run.config else "test"
    return f"{100 * right:.1f}% {measured} accuracy"


def about(run: Run, accuracy: str) -> str:
    """Describe a run in one line: summary of the recipe, size, accuracy."""
    words = [run.config["recipe"].get("summary") or run.spec.family, accuracy]
    if "parameters" in run.config:
        words.insert(1, f"{run.config['parameters'] / 1e6:.1f} M parameters")
    return f"{run.name}: {', '.join(words)}."


def notes(runs: list[Run]) -> list[str]:
    """Explain the numbers of these models to newcomers."""
    found = []
    for classes in dict.fromkeys(run.classes for run in runs):
        if len(classes) <= LISTED:
            found.append(
                f"The models have {len(classes)} classes: {', '.join(classes)}. Images of other "
                "objects are assigned to one of them. A model's percentages add up to 100. A note "
                "marks an image that is less similar to the training images than "
                f"{100 - POSSIBLE_PERCENTILE:.0f}% of the validation images. The note can be "
                "missing, and it can appear for an unusual image of a known class."
            )
    for run in runs:
        if smoothing := setting(run, "label_smoothing"):
            found.append(
                f"{run.name} was trained with label smoothing {smoothing:g}: its target for the "
                f"true class is {100 * highest_target(run):.0f}%, not 100%."
            )
    return found
