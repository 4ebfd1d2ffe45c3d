"""More about the chosen runs, folded: further curves, milestones, stages, final results, epochs.

The payload is {"title": str, "curves": payload of the curves, or {}, "blocks": [block, ...]}.
"""

from collections.abc import Sequence

from vitdemo.context import AppContext
from vitdemo.metrics import DASH
from vitdemo.metrics.recipe_ablation import find_ablations
from vitdemo.metrics.training_progress import (
    count_epochs_below_validation,
    explain_low_training_accuracy,
    format_epoch_count,
    list_stage_changes,
    median_images_per_second,
    milestone_rows,
    with_lineage_history,
)
from vitdemo.page.bridge import ViewState, document_payload
from vitdemo.page.components.article import (
    Bullets,
    Details,
    DocumentBlock,
    Heading,
    PickList,
    Text,
)
from vitdemo.page.components.table import Cell, Column, Table
from vitdemo.page.training.curves import MORE_PLOTS, render_curves
from vitdemo.page.training.run_choice import choose_runs
from vitdemo.runs import RECORD_FIELDS, Run

VIEW = "training_results"
TITLE = "More about these runs"
INTRO = (
    "Training curves of each model, by epoch: on the training set, and on a validation set that "
    "the model never trains on. Point at a plot, or tap it, to read its values. The curves of a "
    "run in progress update automatically. Smoothing is the weight of previous epochs (exponential "
    "moving average); the original curve stays visible."
)
MILESTONES_TITLE = "Time to reach a validation accuracy"
STAGES_TITLE = "Dotted lines: stages of training"
RESULTS_TITLE = "Final results"
RESULT_COLUMNS = (
    "Run",
    "Test accuracy, %",
    "Validation accuracy, %",
    "Epochs",
    "Minutes",
    "Images/s, median epoch",
    "Parameters, million",
    Column("Trained on", numeric=False),
)
EPOCHS_TITLE = "Results by epoch"
OPEN_ABLATION_LABEL = "Show the ablation of {name} in Compare models"
GAP_TITLE = (
    "{name}: training accuracy is below validation accuracy in {count} of {epochs} epochs. Why?"
)


def payload(context: AppContext, state: ViewState) -> dict:
    """Return the curves and the document about the chosen runs."""
    found = context.list_runs()[0]
    shown = choose_runs(found, state)
    ablations = context.cache.call(find_ablations, found)
    blocks = [
        *learning_summary(shown, ablations),
        *final_results(context, shown),
        *epoch_table(shown),
    ]
    curves = render_curves(found, shown, MORE_PLOTS)
    return {
        "title": TITLE,
        "curves": {} if "message" in curves else curves,
        "blocks": document_payload([Text(INTRO, quiet=True), *blocks] if blocks else []),
    }


def learning_summary(runs: Sequence[Run], groups: dict[str, list[str]]) -> list[DocumentBlock]:
    """Return texts about runs: milestones, ablations, stages, reasons for a negative gap.

    `groups` maps the baseline of each ablation to the names of its runs.
    """
    drawn = [run for run in runs if run.history]
    if not drawn:
        return []
    names = {run.name for run in drawn}
    return [
        Heading(MILESTONES_TITLE),
        Table(*milestone_rows([with_lineage_history(run) for run in drawn])),
        *ablation_links([base for base, members in groups.items() if len(names & {*members}) >= 2]),
        *stage_list(drawn),
        *(gap_reasons(run) for run in drawn if count_epochs_below_validation(run)),
    ]


def ablation_links(bases: Sequence[str]) -> list[DocumentBlock]:
    """Return one button per ablation, which opens it in the section Compare models."""
    labels = {base: OPEN_ABLATION_LABEL.format(name=base) for base in bases}
    return [PickList(labels)] if bases else []


def stage_list(runs: Sequence[Run]) -> list[DocumentBlock]:
    """Return a list of the training stages, which dotted lines mark in the plots."""
    items = [
        f"**{run.name}**, {it.when}: {it.text}." for run in runs for it in list_stage_changes(run)
    ]
    return [Heading(STAGES_TITLE), Bullets(items)] if items else []


def gap_reasons(run: Run) -> Details:
    count, epochs = count_epochs_below_validation(run), len(run.history)
    title = GAP_TITLE.format(name=run.name, count=count, epochs=epochs)
    return Details(title, [Bullets(explain_low_training_accuracy(run))])


def final_results(context: AppContext, runs: Sequence[Run]) -> list[DocumentBlock]:
    """Return a table of final results, one row per run, with a dash for missing values."""
    rows = [_final_result_row(run, context.test_accuracy(run)) for run in runs]
    return [Heading(RESULTS_TITLE), Table(RESULT_COLUMNS, rows)] if rows else []


def _final_result_row(run: Run, test: float | None) -> list[str]:
    """Return the cells of a run, in the order of `RESULT_COLUMNS`."""
    used, speed = run.weights_record, median_images_per_second(run)
    parameters = run.config.get("parameters")
    return [
        run.name,
        DASH if test is None else f"{100 * test:.2f}",
        f"{100 * used['val_accuracy']:.2f}" if used else DASH,
        format_epoch_count(run),
        f"{run.train_seconds / 60:.1f}" if run.history else DASH,
        f"{speed:.0f}" if speed else DASH,
        DASH if parameters is None else f"{parameters / 1e6:.2f}",
        run.device or DASH,
    ]


def epoch_table(runs: Sequence[Run]) -> list[DocumentBlock]:
    """Return the results of each epoch as a folded table."""
    rows = [
        [run.name, *(_cell(record[field]) for field in RECORD_FIELDS)]
        for run in runs
        for record in with_lineage_history(run).history
    ]
    table = Table(["run", *RECORD_FIELDS], rows, file="vitdemo-epochs")
    return [Details(EPOCHS_TITLE, [table])] if rows else []


def _cell(value: object) -> Cell:
    return Cell(f"{value:.4g}", value=value) if isinstance(value, float) else Cell(str(value))
