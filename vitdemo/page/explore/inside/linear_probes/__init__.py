"""Linear probes in the part "Layer by layer": class information after each layer.

The payload does not depend on the image. `result` is None if it is neither stored nor in the cache;
a task computes it. Index 0 of the accuracies (L+1) is before the first layer:

    {"run": str, "layers": L,
     "result": {"training": int, "test": int, "accuracies": {name: (L+1)}} or None}
"""

from vitdemo.analyses.linear_probes import compute_probes, find_probes
from vitdemo.context import AppContext
from vitdemo.explain.checks import require_attention
from vitdemo.page import state_keys as keys
from vitdemo.page.feature import Feature, Report
from vitdemo.page.view_state import ViewState, needs

VIEW = "linear_probes"  # also the name of its task
DIGITS = 4


@needs(keys.MODEL)
def payload(context: AppContext, state: ViewState) -> dict:
    run = context.find_run(state.model)
    require_attention(run, context.load_model(run))
    probes = find_probes(context, run)
    return {
        "run": run.name,
        "layers": context.count_layers(run),
        "result": probes
        and {
            "training": probes.training_images,
            "test": probes.test_images,
            "accuracies": {
                name: [round(each, DIGITS) for each in accuracies]
                for name, accuracies in probes.accuracies.items()
            },
        },
    }


def compute(context: AppContext, state: ViewState, report: Report) -> None:
    """Fit the probes, which are then in the cache. A task of the bridge."""
    run = context.find_run(state.model)
    compute_probes(context, run, lambda done, total: report(done, total, "Computing tokens"))


FEATURE = Feature({VIEW: payload}, tasks={VIEW: compute})
