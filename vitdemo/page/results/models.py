"""The two models of the Results tab: the chosen model, and a model to compare with.

The chosen model is the model of Explore, unless the user chose a run without weights.
"""

from vitdemo.context import AppContext
from vitdemo.errors import RunError
from vitdemo.page.bridge import ViewState
from vitdemo.page.components.run_choice import choose_run, describe_run_choices
from vitdemo.page.kit import NO_EVALUATION_MESSAGE

MODEL, OTHER_MODEL = "results.model", "results.other"  # state keys


def choose_models(context: AppContext, state: ViewState) -> tuple[str, str, dict[str, dict]]:
    """Return the chosen run, the run to compare with, and updates of their menus.

    A name is "" if no run was evaluated, or if the user chose no run to compare with.
    """
    tested = context.evaluated_runs()
    name = choose_run(tested, state.read_text(MODEL) or state.model)
    rest = [run for run in tested if run.name != name]
    other = choose_run(rest, state.read_text(OTHER_MODEL), optional=True)
    menus = {
        MODEL: describe_run_choices(tested, name),
        OTHER_MODEL: describe_run_choices(rest, other),
    }
    return name, other, menus


def require_model(context: AppContext, state: ViewState) -> str:
    """Return the chosen run. Raises `RunError` if no run was evaluated."""
    name, _, _ = choose_models(context, state)
    if not name:
        raise RunError(NO_EVALUATION_MESSAGE)
    return name
