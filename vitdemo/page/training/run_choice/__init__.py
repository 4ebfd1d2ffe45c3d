"""The legend that selects runs in the tab Train, and the status of runs in progress.

The data of the view are {"runs": names of all runs, "in_progress": bool}. The browser sends the
names back under the state key `KNOWN_RUNS`, so that new runs are recognised.
"""

from collections.abc import Sequence

from vitdemo.context import AppContext
from vitdemo.figures.curves import MAX_TRAINING_CURVES, choose_line_styles
from vitdemo.jobs import JobQueue
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view
from vitdemo.page.components.run_choice import MODELS_GROUP, UNFINISHED_GROUP, group_runs
from vitdemo.page.components.run_list import RunList
from vitdemo.page.feature import PageSetup, ViewData
from vitdemo.page.state_key import NOT_CHOSEN
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import Run, number_runs
from vitdemo.runs.steps import is_in_progress

VIEW = "training_runs"
LIST_PROPERTIES = {"shown": [MODELS_GROUP, UNFINISHED_GROUP], "more": "More runs"}


def build(setup: PageSetup) -> None:
    found = setup.context.list_runs()[0]
    defaults = default_run_names(found)
    setup.controls.add(
        keys.CURVE_RUNS,
        RunList,
        group_runs(found),
        [*NOT_CHOSEN],
        defaults=defaults,
        **LIST_PROPERTIES,
        looks=describe_looks(found, defaults),
    )


def build_status() -> None:
    add_view(VIEW, elem_id="training-runs")


@needs(keys.CURVE_RUNS, unwatched=(keys.KNOWN_RUNS,))
def payload(jobs: JobQueue | None, context: AppContext, state: ViewState) -> ViewData:
    """Return the names and the status of all runs, and the runs to choose from."""
    found = context.list_runs()[0]
    is_training = any(job.is_unfinished for job in jobs.list_jobs()) if jobs else False
    data = {
        "runs": [run.name for run in found],
        # Without a run, the page waits for the first run.
        "in_progress": is_training or not found or any(map(is_in_progress, found)),
    }
    names, defaults = [run.name for run in choose_runs(found, state)], default_run_names(found)
    value = [*NOT_CHOSEN] if names == defaults else names
    # All properties, since gradio replaces the properties of a list in a closed accordion.
    props = {
        **LIST_PROPERTIES,
        "groups": group_runs(found),
        "defaults": defaults,
        "looks": describe_looks(found, names),
    }
    return ViewData(data, {keys.CURVE_RUNS.name: {"props": props, "value": value}})


def describe_looks(runs: Sequence[Run], names: Sequence[str]) -> dict[str, dict]:
    """Return the colours and the marker of each run in `names` that has curves, see `RunList`."""
    drawn = [run.name for run in runs if run.name in names and run.history]
    styles = choose_line_styles(drawn, number_runs(runs))
    has_training = len(drawn) <= MAX_TRAINING_CURVES
    return {
        name: {
            "colour": style.colour,
            "lighter": style.lighter if has_training else None,
            "sign": style.symbol,
        }
        for name, style in styles.items()
    }


def default_run_names(runs: Sequence[Run]) -> list[str]:
    """Return the names of the runs to draw initially: runs with weights and runs in training.

    If there are no such runs, return all names.
    """
    begun = [run for run in runs if not run.is_results_only]
    return [run.name for run in begun or runs]


def choose_runs(runs: Sequence[Run], state: ViewState) -> list[Run]:
    """Return the chosen runs of `runs`, and new runs with weights or in training."""
    names, known = state[keys.CURVE_RUNS], state[keys.KNOWN_RUNS]
    defaults = default_run_names(runs)
    if names == [*NOT_CHOSEN]:
        names = defaults
    elif known:
        names += [name for name in defaults if name not in known]
    return [run for run in runs if run.name in names]
