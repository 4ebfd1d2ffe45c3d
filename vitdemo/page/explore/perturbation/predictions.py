"""Predictions of all models for the full image and for the changed image.

The classes are the most probable classes before and after the change. `predicted` contains the
predicted class before and after it, `class_count` the number of all classes. `removed` is the state
of these predictions, and `grid` the grid of removable patches:

    {"grid": [rows, columns], "removed": text, "has_other_changes": whether the image has changes
     other than removed patches, "models": [{"run": str, "class_count": int,
     "predicted": [class, class], "classes": [names], "before": [probabilities],
     "now": [probabilities]}, ...], "problems": [str]}
"""

from dataclasses import replace

from vitdemo.analyses.perturbation import PredictionChange, predict_changes
from vitdemo.context import AppContext
from vitdemo.data.perturb.changes import RemovedPatches
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
    models, problems = predict_changes(context, before, after)
    removed = changes.removed
    return {
        "grid": list(removed.grid),
        "removed": removed.encode,
        "has_other_changes": not replace(changes, removed=RemovedPatches(removed.grid)).is_identity,
        "models": [describe_model(each) for each in models],
        "problems": problems,
    }


FEATURE = Feature({VIEW: payload})


def describe_model(change: PredictionChange) -> dict:
    shown = change.top_classes()
    return {
        "run": change.run.name,
        "class_count": len(change.run.classes),
        "predicted": [change.class_before, change.class_after],
        "classes": [change.run.classes[i] for i in shown],
        "before": round_numbers(change.before[shown], PROBABILITY_DIGITS),
        "now": round_numbers(change.after[shown], PROBABILITY_DIGITS),
    }
