"""Predictions of all models for the full image and for the changed image.

Each model has the fields of `prediction_change`; `class_count` is the number of all classes.
`removed` is the state of these predictions, and `grid` the grid of removable patches:

    {"grid": [rows, columns], "removed": text, "models": [{"run": str, "class_count": int,
     ...}, ...], "problems": [str]}
"""

import torch
from torch import Tensor

from vitdemo.analyses.perturbation import PredictionChange, predict_changes
from vitdemo.context import AppContext
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import fill, list_image_runs
from vitdemo.page.explore.perturbation import image as changed_image
from vitdemo.page.explore.perturbation.image import load_images, parse_changes
from vitdemo.page.explore.prediction_change import compare_predictions
from vitdemo.page.feature import Feature
from vitdemo.page.graph import Graph, Outputs
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import Run

VIEW = "changed_predictions"
MAX_CLASSES = 3  # most probable classes before, and after the change


@needs(*keys.CHANGES, keys.MODEL, keys.REMOVED_PATCHES)
def payload(context: AppContext, state: ViewState) -> dict:
    changes = parse_changes(context, state)
    before, after = load_images(context, state, changes)
    runs = list_image_runs(context, state.image, context.classifier_runs)
    models, problems = predict_changes(context, before, after, runs)
    removed = changes.removed
    return {
        "grid": list(removed.grid),
        "removed": removed.encode,
        "models": [describe_model(each) for each in models],
        "problems": problems,
    }


def compute_outputs(
    context: AppContext, run: Run, state: ViewState, crop: Tensor, changed: Tensor
) -> Outputs:
    """Compute the fields of `prediction_change`: see `page.graph`."""
    model, images = context.load_model(run), run.preprocessing(torch.stack([crop, changed]))
    before, after = model(images).float().softmax(1)[:, : len(run.classes)]
    return compare_predictions(run.classes, before, after, MAX_CLASSES, MAX_CLASSES)


GRAPH = Graph(
    compute_outputs, models="models", echoes=[keys.REMOVED_PATCHES], changes=changed_image.GRAPH
)
FEATURE = Feature({VIEW: payload}, graphs={VIEW: GRAPH})


def describe_model(change: PredictionChange) -> dict:
    classes = change.run.classes
    before, after = (torch.from_numpy(each) for each in (change.before, change.after))
    data = {"run": change.run.name, "class_count": len(classes)}
    return fill(data, compare_predictions(classes, before, after, MAX_CLASSES, MAX_CLASSES))
