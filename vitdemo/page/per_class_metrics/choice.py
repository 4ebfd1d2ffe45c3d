"""The models that the user chose in the Per-class metrics tab."""

from vitdemo.context import AppContext
from vitdemo.page.bridge import ViewState
from vitdemo.page.components.run_choice import choose_run, describe_run_choices

MODEL, OTHER_MODEL = "metrics.model", "metrics.other"  # state keys


def choose_models(context: AppContext, state: ViewState) -> tuple[str, str, dict[str, dict]]:
    """Return the chosen model, the model to compare with, and updates of their menus.

    A name is "" if no run was evaluated, or if the user chose no model to compare with.
    """
    tested = context.evaluated_runs()
    name = choose_run(tested, state.read_text(MODEL))
    rest = [run for run in tested if run.name != name]
    other = choose_run(rest, state.read_text(OTHER_MODEL), optional=True)
    menus = {
        MODEL: describe_run_choices(tested, name),
        OTHER_MODEL: describe_run_choices(rest, other),
    }
    return name, other, menus
