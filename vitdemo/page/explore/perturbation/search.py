"""The task "Find fewest": search for few patches without which the model predicts another class.

The search begins with all other changes of the image, and without removed patches. The result:

    {"run": str, "target": class to change, "removed": text as in the state key `removed`,
     "count": removed patches, "patches": patches of the grid, "passes": images passed,
     "is_met": whether the class changes, "probability": of the target without these patches}
"""

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from vitdemo.analyses.fewest_patches import (
    make_removal_loop,
    predict_without_patches,
    require_choice,
    search_fewest_patches,
)
from vitdemo.context import AppContext
from vitdemo.data.perturb import REMOVAL_GRID
from vitdemo.data.perturb.changes import RemovedPatches, apply_changes
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import load_square
from vitdemo.page.explore.perturbation import image as changed_image
from vitdemo.page.explore.perturbation.image import get_canvas_crop, load_canvas, parse_changes
from vitdemo.page.feature import Feature, Report
from vitdemo.page.graph import (
    Choice,
    Constant,
    Graph,
    Loop,
    Numbers,
    Outputs,
    Patches,
    hide,
)
from vitdemo.page.view_state import ViewState
from vitdemo.runs import Run

TASK = "fewest_patches"
SEARCHING = "Searching"
GRID = REMOVAL_GRID, REMOVAL_GRID  # of the loop
PROBABILITY_DIGITS = 6


def find_fewest(context: AppContext, state: ViewState, report: Report) -> dict:
    """Search for few patches, and report the images passed. Raises `VitdemoError`."""
    run, original = context.find_run(state.model), load_square(context, state.image)
    changes = parse_changes(context, state)
    grid = changes.removed.grid
    others = replace(changes, removed=RemovedPatches(grid))
    canvas = context.cache.call(apply_changes, load_canvas(context, state), others)
    target, found = search_fewest_patches(
        *(context, run, original, canvas, grid),
        lambda done, total: report(done, total, SEARCHING),
    )
    return {
        "run": run.name,
        "target": run.classes[target],
        "removed": RemovedPatches(grid, found.order).encode,
        "count": len(found.order),
        "patches": math.prod(grid),
        "passes": found.passes,
        "is_met": found.is_met,
        "probability": math.exp(found.values[-1]),
    }


def compute_start(context: AppContext, run: Run, state: ViewState, crop: Tensor) -> Outputs:
    """Compute the predicted class of the unchanged image, and the search before its first step."""
    logits = context.load_model(run)(run.preprocessing(crop[None]))[0, : len(run.classes)]
    target = logits.argmax()
    return hide({"target": target, **make_removal_loop(run, target, GRID).start()})


def compute_step(
    context: AppContext,
    run: Run,
    state: ViewState,
    canvas: Tensor,
    changed: Tensor,
    values: Mapping[str, Tensor],
) -> Outputs:
    """Compute a step of the search for the `changed` canvas (3, S, S) uint8, and its result."""
    loop, model = make_removal_loop(run, values["target"], GRID), context.load_model(run)
    found = loop.continue_search(
        lambda sets, needed: predict_without_patches(model, run, changed, sets, GRID), values
    )
    progress = {"done": found["passes"], "total": torch.tensor(loop.max_passes)}
    return hide({**values, **found, **progress}) | {
        "run": Constant(run.name),
        "target": Choice(values["target"], run.classes),
        "removed": Patches(found["removed"].view(GRID)),
        "count": Numbers(found["removed"].sum()),
        "patches": Constant(math.prod(GRID)),
        "passes": Numbers(found["passes"]),
        "is_met": Choice(found["is_met"].long(), [False, True]),
        "probability": Numbers(found["score"].exp(), PROBABILITY_DIGITS),
    }


def make_loops(context: AppContext, run: Run) -> list[Loop]:
    """Return the search as a loop on the grid `GRID`. Raises `RunError` as the search does."""
    require_choice(run)
    start = Graph(compute_start)
    step = Graph(compute_step, get_crop=get_canvas_crop, changes=changed_image.GRAPH)
    return [Loop(SEARCHING, start, step, given={keys.REMOVED_PATCHES: keys.REMOVED_PATCHES.start})]


FEATURE = Feature(tasks={TASK: find_fewest}, loops={TASK: make_loops})
