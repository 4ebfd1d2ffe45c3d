"""The ablation: the effect of each change to the training recipe."""

import gradio as gr

from vitdemo.analyses.model_rows import model_rows
from vitdemo.analyses.predictions import comparable_predictions
from vitdemo.context import AppContext
from vitdemo.documents import DocumentBlock, Notice
from vitdemo.errors import VitdemoError
from vitdemo.installation import TRAIN_COMMAND
from vitdemo.metrics.recipe_ablation import RecipeAblation, compute_ablation, find_ablations
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view, document_payload
from vitdemo.page.components.run_choice import RunChoice, describe_run_choices, group_runs
from vitdemo.page.feature import Feature, PageSetup, ViewData
from vitdemo.page.view_state import ViewState, needs
from vitdemo.report.ablation import ablation_blocks
from vitdemo.runs import Run

VIEW = "recipe_ablation"
TITLE_ID = "ablation-title"
PLOT_WIDTH = 11  # inches
ABLATION_TITLE = "## Ablation: the effect of each change to the recipe"
NO_COMPARISON_MESSAGE = (
    f"No run has been evaluated yet. To evaluate a run, use `{TRAIN_COMMAND} evaluate runs/NAME`."
)


def build(setup: PageSetup) -> None:
    gr.Markdown(ABLATION_TITLE, elem_id=TITLE_ID)
    tested = setup.context.evaluated_runs()
    first = next(iter(find_ablations(tested)), "")
    setup.controls.add(keys.ABLATION_BASELINE, RunChoice, group_runs(tested), first)
    add_view(VIEW, elem_id="gains")


@needs(keys.ABLATION_BASELINE)
def payload(context: AppContext, state: ViewState) -> ViewData:
    offered = list_baselines(context)
    names, chosen = [run.name for run in offered], state[keys.ABLATION_BASELINE]
    name = chosen if chosen in names else next(iter(names), "")
    return ViewData(
        document_payload(baseline_blocks(context, name)),
        {keys.ABLATION_BASELINE.name: describe_run_choices(offered, name, chosen)},
    )


FEATURE = Feature({VIEW: payload})


def baseline_blocks(context: AppContext, name: str) -> list[DocumentBlock]:
    """Compare all comparable runs with the run `name`, which is "" if no run was evaluated."""
    if not name:  # without runs, the table of models already shows a notice
        return [Notice(NO_COMPARISON_MESSAGE)] if context.list_runs()[0] else []
    try:
        found = compute_run_ablation(context, name)
    except VitdemoError as error:
        return [Notice(str(error))]
    return ablation_blocks(found, PLOT_WIDTH)


def compute_run_ablation(context: AppContext, name: str) -> RecipeAblation:
    """Compare all comparable runs with `name`. Raises `RunError` without a valid evaluation."""
    base, group = context.find_run(name), comparable_predictions(context, name)
    others = [run for run in group.runs if run.name != name]
    return context.cache.call(compute_ablation, base, others, group.exclusion_messages)


def list_baselines(context: AppContext) -> list[Run]:
    """Return the evaluated runs in the order of the menu of baselines.

    The baselines of `find_ablations` come first, in the same order. The other runs follow, lowest
    accuracy first, and at the end the runs with an accuracy close to chance.
    """
    tested = context.evaluated_runs()
    found = {run.name: run for run in tested}
    places = {name: i for i, name in enumerate(find_ablations(tested))}
    rows = [row for row in reversed(model_rows(context)) if row.evaluation]
    rows.sort(key=lambda row: (row.is_at_chance, places.get(row.name, len(places))))
    return [found[row.name] for row in rows]
