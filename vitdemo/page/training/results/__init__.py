"""More about the chosen runs: further curves, milestones, stages, final results, epochs.

The view is folded, and is requested only while it is open, because the results of all epochs are
large. The payload is {"curves": payload of the curves, or {}, "blocks": [block, ...]}.
"""

from collections.abc import Mapping, Sequence

from vitdemo.context import AppContext
from vitdemo.documents import Details, DocumentBlock, PickList, Text
from vitdemo.documents.table import Cell, Table
from vitdemo.metrics.recipe_ablation import find_ablations
from vitdemo.metrics.training_progress import with_lineage_history
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import document_payload
from vitdemo.page.feature import Feature
from vitdemo.page.training.curves import render_curves
from vitdemo.page.training.run_choice import choose_runs
from vitdemo.page.view_state import ViewState, needs
from vitdemo.report.training import MORE_PLOTS, final_results, learning_summary
from vitdemo.runs import RECORD_FIELDS, Run

VIEW = "training_results"
INTRO = (
    "Training curves of each model by epoch, for the training set and for the validation set, "
    "which is not used for training. Point at a plot or tap it to read the values. The curves of "
    "a run in progress update automatically. Smoothing is the weight of previous epochs "
    "(exponential moving average). The original curve stays visible."
)
EPOCHS_TITLE = "Results by epoch"
OPEN_ABLATION_LABEL = "Show the ablation of {name} in Compare models"


@needs(keys.CURVE_RUNS, keys.SHOWS_MORE_RESULTS, unwatched=(keys.KNOWN_RUNS,))
def payload(context: AppContext, state: ViewState) -> dict:
    found = context.list_runs()[0]
    shown = choose_runs(found, state)
    curves = render_curves(found, shown, MORE_PLOTS)
    if "message" in curves:
        return {"curves": {}, "blocks": document_payload([Text(curves["message"])])}
    blocks = [
        Text(INTRO, quiet=True),
        *learning_summary(shown),
        *ablation_links(shown, find_ablations(found)),
        *final_results(shown, context.test_accuracy),
        *epoch_table(shown),
    ]
    return {"curves": curves, "blocks": document_payload(blocks)}


FEATURE = Feature({VIEW: payload})


def ablation_links(runs: Sequence[Run], groups: Mapping[str, Sequence[str]]) -> list[DocumentBlock]:
    """Return a button that opens Compare models, for each ablation with two or more of `runs`.

    `groups` maps the baseline of each ablation to the names of its runs.
    """
    names = {run.name for run in runs if run.history}
    bases = [base for base, members in groups.items() if len(names & {*members}) >= 2]
    labels = {base: OPEN_ABLATION_LABEL.format(name=base) for base in bases}
    return [PickList(labels)] if bases else []


def epoch_table(runs: Sequence[Run]) -> list[DocumentBlock]:
    rows = [
        [run.name, *(_cell(record[field]) for field in RECORD_FIELDS)]
        for run in runs
        for record in with_lineage_history(run).history
    ]
    table = Table(["run", *RECORD_FIELDS], rows, tall=True, file="vitdemo-epochs")
    return [Details(EPOCHS_TITLE, [table])] if rows else []


def _cell(value: object) -> Cell:
    if not isinstance(value, float):
        return Cell(str(value))
    return Cell(f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}", value=value)
