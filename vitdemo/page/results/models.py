"""The two models of the Results tab: the chosen model, and a model to compare with.

The chosen model is the model of Explore, unless the user chose a run without weights.
"""

from collections.abc import Sequence

from vitdemo.context import AppContext
from vitdemo.errors import RunError
from vitdemo.page import state_keys as keys
from vitdemo.page.components.run_choice import choose_run, describe_menu, group_runs
from vitdemo.page.kit import NO_EVALUATION_MESSAGE
from vitdemo.page.view_state import ViewState
from vitdemo.runs import Run
from vitdemo.test_sets.context import ORIGINAL_SUFFIX, TestSetContext

MODELS = (keys.TEST_SET, keys.RESULTS_MODEL, keys.OTHER_MODEL)
NO_RESULTS_WARNING = "There are no test results of '{name}'."
SAME_MODEL = "same model, original test set"  # value of `OTHER_MODEL` with a user's test set


def choose_models(context: AppContext, state: ViewState) -> tuple[str, str]:
    """Return the chosen run, and the run to compare with.

    A name is "" if no run was evaluated, or if the user chose no run to compare with.
    """
    name, wanted = choose_model(context, state), state[keys.OTHER_MODEL]
    if wanted == SAME_MODEL and has_original_evaluation(context, name):
        return name, name + ORIGINAL_SUFFIX
    others = _list_others(context.evaluated_runs(), name)
    return name, choose_run(others, wanted, optional=True)


def choose_model(context: AppContext, state: ViewState) -> str:
    """Return the name of the chosen run, or "" if no run was evaluated."""
    return choose_run(context.evaluated_runs(), state[keys.RESULTS_MODEL])


def has_original_evaluation(context: AppContext, name: str) -> bool:
    """Return whether a user's test set is chosen and the run `name` has its own evaluation."""
    if not isinstance(context, TestSetContext) or not name:
        return False
    return context.find_run(name + ORIGINAL_SUFFIX).has_evaluation


def require_models(context: AppContext, state: ViewState) -> tuple[str, str]:
    """Return the result of `choose_models`. Raises `RunError` if no run was evaluated."""
    return require_model(context, state), choose_models(context, state)[1]


def require_model(context: AppContext, state: ViewState) -> str:
    """Return the name of the chosen run. Raises `RunError` if no run was evaluated."""
    name = choose_model(context, state)
    if not name:
        raise RunError(NO_EVALUATION_MESSAGE)
    return name


def describe_menus(context: AppContext, state: ViewState) -> dict[str, dict]:
    """Return updates of both menus, for `ViewData`, with the choices of `choose_models`."""
    tested = context.evaluated_runs()
    name, other = choose_models(context, state)
    others = group_runs(_list_others(tested, name))
    if has_original_evaluation(context, name):
        others = [("This model", [SAME_MODEL]), *others]
    value = SAME_MODEL if other.endswith(ORIGINAL_SUFFIX) else other
    requested, compared = state[keys.RESULTS_MODEL], state[keys.OTHER_MODEL]
    compared = "" if compared in (name, SAME_MODEL) else compared  # neither value is an unknown run
    return {
        keys.RESULTS_MODEL.name: describe_menu(
            group_runs(tested), name, requested, NO_RESULTS_WARNING
        ),
        keys.OTHER_MODEL.name: describe_menu(others, value, compared, NO_RESULTS_WARNING),
    }


def _list_others(runs: Sequence[Run], name: str) -> list[Run]:
    return [run for run in runs if run.name != name]
