"""The two models of the Results tab: the chosen model, and a model to compare with.

The chosen model is the model of Explore, unless the user chose a run without weights.
"""

from collections.abc import Sequence

from vitdemo.context import AppContext
from vitdemo.errors import RunError
from vitdemo.page.bridge import ViewState
from vitdemo.page.components.run_choice import choose_run, describe_menu, group_runs
from vitdemo.page.kit import NO_EVALUATION_MESSAGE
from vitdemo.runs import Run
from vitdemo.runs.user_test_set import ORIGINAL_SUFFIX

MODEL, OTHER_MODEL = "results.model", "results.other"  # state keys
NO_RESULTS_WARNING = "There are no test results of '{name}'."
SAME_MODEL = "same model, original test set"  # value of `OTHER_MODEL` with a user's test set


def choose_models(context: AppContext, state: ViewState) -> tuple[str, str]:
    """Return the chosen run, and the run to compare with.

    A name is "" if no run was evaluated, or if the user chose no run to compare with.
    """
    tested = context.evaluated_runs()
    name = choose_run(tested, state.read_text(MODEL) or state.model)
    wanted = state.read_text(OTHER_MODEL)
    if wanted == SAME_MODEL and has_original_evaluation(context, name):
        return name, name + ORIGINAL_SUFFIX
    return name, choose_run(_list_others(tested, name), wanted, optional=True)


def has_original_evaluation(context: AppContext, name: str) -> bool:
    """Return whether a user's test set is chosen and the run `name` has its own evaluation."""
    if context.user_test_set is None or not name:
        return False
    return context.find_run(name + ORIGINAL_SUFFIX).has_evaluation


def require_models(context: AppContext, state: ViewState) -> tuple[str, str]:
    """Return the result of `choose_models`. Raises `RunError` if no run was evaluated."""
    name, other = choose_models(context, state)
    if not name:
        raise RunError(NO_EVALUATION_MESSAGE)
    return name, other


def describe_menus(context: AppContext, state: ViewState) -> dict[str, dict]:
    """Return updates of both menus, for `ViewData`, with the choices of `choose_models`."""
    tested = context.evaluated_runs()
    name, other = choose_models(context, state)
    others = group_runs(_list_others(tested, name))
    if has_original_evaluation(context, name):
        others = [("This model", [SAME_MODEL]), *others]
    value = SAME_MODEL if other.endswith(ORIGINAL_SUFFIX) else other
    requested, compared = state.read_text(MODEL) or state.model, state.read_text(OTHER_MODEL)
    compared = "" if compared in (name, SAME_MODEL) else compared  # neither is an unknown run
    return {
        MODEL: describe_menu(group_runs(tested), name, requested, NO_RESULTS_WARNING),
        OTHER_MODEL: describe_menu(others, value, compared, NO_RESULTS_WARNING),
    }


def _list_others(runs: Sequence[Run], name: str) -> list[Run]:
    return [run for run in runs if run.name != name]
