"""What every model answers of one picture, as cards.

The value that reaches the script, likeliest class first:

    {"models": [{"run", "about", "accuracy", "classes", "probabilities", "label"}, ...],
     "label": the true class or None, "problems": [...], "notes": [...]}

A model's own "label" is the true class where it is one of those that this model knows, else None.
"""

from dataclasses import dataclass

from vitdemo.metrics import top_k
from vitdemo.metrics.calibrated_runs import highest_target
from vitdemo.metrics.learning import setting
from vitdemo.page.components import Drawing
from vitdemo.runs import Run
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
    }


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
                f"The models know {len(classes)} classes: {', '.join(classes)}. Anything else "
                "becomes the nearest of them; the percentages of a model add up to 100."
            )
    for run in runs:
        if smoothing := setting(run, "label_smoothing"):
            found.append(
                f"{run.name} was trained with label smoothing {smoothing:g}: its targets end at "
                f"{100 * highest_target(run):.0f} %, so of a clear picture "
                "it is about as sure as that, seldom much surer."
            )
    return found
