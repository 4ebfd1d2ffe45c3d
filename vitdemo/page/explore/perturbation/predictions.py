"""Predictions of all models for the changed image.

The classes are the most probable classes before and after the change. `summary` and `before` are
empty if the image is unchanged:

    {"summary": str, "models": [{"run": str, "isKept": bool, "verdict": str, "classes": [names],
     "before": [probabilities], "now": [probabilities]}, ...], "problems": [str]}
"""

from contextlib import suppress

from vitdemo.analyses.perturbation import PredictionChange, predict_changes
from vitdemo.context import AppContext
from vitdemo.data.perturb.changes import ImageChanges
from vitdemo.errors import VitdemoError
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import round_numbers
from vitdemo.page.explore.perturbation.image import load_images, parse_changes
from vitdemo.page.feature import Feature
from vitdemo.page.view_state import ViewState, needs

VIEW = "changed_predictions"
PROBABILITY_DIGITS = 6  # enough for equal rounding in the browser and in Python


@needs(*keys.CHANGES, keys.MODEL, keys.REMOVED_PATCHES)
def payload(context: AppContext, state: ViewState) -> dict:
    changes = parse_changes(context, state)
    before, after = load_images(context, state, changes)
    with suppress(VitdemoError):  # predictions reuse the maps' forward passes
        for image in (before, after):
            context.trace_image(context.find_run(state.model), image)
    return to_payload(*predict_changes(context, before, after), changes)


FEATURE = Feature({VIEW: payload})


def to_payload(models: list[PredictionChange], problems: list[str], changes: ImageChanges) -> dict:
    """Return the payload of the predictions, with the number of unchanged predictions."""
    kept = sum(each.class_before == each.class_after for each in models)
    keep = "model keeps its" if len(models) == 1 else "models keep their"
    summary = f"{kept} of {len(models)} {keep} prediction."
    return {
        "summary": "" if changes.is_identity else summary,
        "models": [describe_model(each, changes) for each in models],
        "problems": problems,
    }


def describe_model(change: PredictionChange, changes: ImageChanges) -> dict:
    before, after, shown = change.class_before, change.class_after, change.top_classes()
    before_shares = change.before[[] if changes.is_identity else shown]
    verdict = f"still {after}" if before == after else f"{before} → {after}"
    return {
        "run": change.run.name,
        "isKept": before == after,
        "verdict": after if changes.is_identity else verdict,
        "classes": [change.run.classes[i] for i in shown],
        "before": round_numbers(before_shares, PROBABILITY_DIGITS),
        "now": round_numbers(change.after[shown], PROBABILITY_DIGITS),
    }
