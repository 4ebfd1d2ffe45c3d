"""The task "Find fewest": search for few patches without which the model predicts another class.

The search begins with all other changes of the image, and without removed patches. The result:

    {"run": str, "target": class to change, "removed": text as in the state key `removed`,
     "count": removed patches, "patches": patches of the grid, "passes": images passed,
     "is_met": whether the class changes, "probability": of the target without these patches}
"""

import math
from dataclasses import replace

from vitdemo.analyses.fewest_patches import search_fewest_patches
from vitdemo.context import AppContext
from vitdemo.data.perturb.changes import RemovedPatches, apply_changes
from vitdemo.page.bridge import load_square
from vitdemo.page.explore.perturbation.image import load_canvas, parse_changes
from vitdemo.page.feature import Feature, Report
from vitdemo.page.view_state import ViewState

TASK = "fewest_patches"
SEARCHING = "Searching"


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


FEATURE = Feature(tasks={TASK: find_fewest})
