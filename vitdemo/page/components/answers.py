"""What every model answers of one picture, as cards.

The value that reaches the script, likeliest class first:

    {"models": [{"run", "about", "accuracy", "classes", "probabilities", "label", "unusual"}, ...],
     "label": the true class or None, "problems": [...], "notes": [...]}

A model's own "label" is the true class where it is one of those that this model knows, else None.
"unusual" is a warning for an image that is unlike the run's training images, "" for others.
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
LISTED = 30  # classes that are named in the notes


@dataclass(frozen=True)
class PictureAnswers:
    """The `answers` to a picture whose true class is `label`, and a sentence for each model that
    has none."""

    answers: list[Answer]
    problems: list[str]
    label: str | None = None


class Answers(Drawing):
    """See the module."""

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
    share = f"{int(100 - percentile)} % of" if percentile > 0 else "all"
    words = f"less like the training images than {share} validation images."
    if label in answer.run.classes:
        return words.capitalize()
    likely = "Probably" if percentile < PROBABLE_PERCENTILE else "Possibly"
    return f"{likely} none of the {len(answer.run.classes)} classes: {words}"


def accuracy_of(run: Run) -> str:
    """How good it is on pictures that it did not learn from, in a few words."""
    right = final_accuracy(run)
    if right is None:
        return "not evaluated"
    measured = "cross-validated" if "own_classes" in run.config else "test"
    return f"{100 * right:.1f} % {measured} accuracy"


def about(run: Run, accuracy: str) -> str:
    """One line: its size, how good it is, and the run's own words of what it is."""
    words = [run.config["recipe"].get("summary") or run.spec.family, accuracy]
    if "parameters" in run.config:
        words.insert(1, f"{run.config['parameters'] / 1e6:.1f} M parameters")
    return f"{run.name}: {', '.join(words)}."


def notes(runs: list[Run]) -> list[str]:
    """What a newcomer would ask of the numbers of these models."""
    found = []
    for classes in dict.fromkeys(run.classes for run in runs):
        if len(classes) <= LISTED:
            found.append(
                f"The models know {len(classes)} classes: {', '.join(classes)}. They predict one "
                "of these for any image, also where it shows none of them, and the percentages of "
                "a model add up to 100. A note marks an image that is less like the training "
                f"images than {100 - POSSIBLE_PERCENTILE:.0f} % of the validation images. It can "
                "be missing, and it can appear for an unusual image of a known class."
            )
    for run in runs:
        if smoothing := setting(run, "label_smoothing"):
            found.append(
                f"{run.name} was trained with label smoothing {smoothing:g}: the target of the "
                f"true class was {100 * highest_target(run):.0f} %, not 100 %."
            )
    return found
