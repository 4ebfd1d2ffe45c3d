"""Report on chosen runs: one self-contained HTML file with figures and tables, without scripts.

    Path("report.html").write_text(render_report(runs), encoding="utf-8")

Each module of this package builds the blocks of one feature, which the page also shows. All content
comes from the run folders, so neither a dataset nor a model is needed. For a run without an
evaluation or an epoch, the report contains a message.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timezone

from vitdemo.analyses.model_rows import make_model_row
from vitdemo.documents import Bullets, DocumentBlock, Notice, Section, Text
from vitdemo.documents.html import TEMPLATES, collect_definitions, render_blocks
from vitdemo.errors import RunError, VitdemoError
from vitdemo.metrics.calibration_report import compute_calibration_report
from vitdemo.metrics.classification_report import compute_classification_report
from vitdemo.metrics.recipe_ablation import compute_ablation, find_ablations
from vitdemo.report.ablation import ablation_blocks
from vitdemo.report.calibration import CALIBRATION_INTRO, calibration_blocks, explain_calibration
from vitdemo.report.class_metrics import (
    METRICS_INTRO,
    class_metrics_table,
    describe_test_accuracy,
    explain_metrics,
)
from vitdemo.report.comparison import comparison_blocks
from vitdemo.report.confusion import confusion_blocks, count_cells
from vitdemo.report.models import model_blocks
from vitdemo.report.settings import provenance_blocks, settings_blocks
from vitdemo.report.training import training_blocks
from vitdemo.runs import Run, number_runs

DEFINITIONS = (
    "**Validation set**: images that are held out of training, to fit the temperature and to "
    "choose the saved epoch (with early stopping). **Test set**: images for the final evaluation "
    "only.",
    METRICS_INTRO,
    CALIBRATION_INTRO,
    "–: not measured or not defined.",
)


def get_report_name(runs: Sequence[Run], *, now: datetime | None = None) -> str:
    """Return the report's file name: first run, number of other runs, and time."""
    now = now or datetime.now(timezone.utc)
    first = re.sub(r"[^\w.-]+", "-", runs[0].name)[:60]
    more = f"-and-{len(runs) - 1}-more" if len(runs) > 1 else ""
    return f"report-{first}{more}-{now:%Y-%m-%d-%H%M}.html"


def render_report(
    runs: Sequence[Run], *, others: Sequence[Run] = (), now: datetime | None = None
) -> str:
    """Return the report as HTML. Raises `RunError` if `runs` is empty.

    `others` are further runs on the page. They are needed to give each run its colour on the page.
    """
    if not runs:
        raise RunError("Choose at least one run for the report.")
    names = [run.name for run in runs]
    pairs = comparison_blocks(runs)
    chapters = [
        Section("Models", model_blocks([make_model_row(run) for run in runs])),
        Section("Training progress", training_blocks(runs, number_runs(others or runs))),
        *ablation_chapters(runs),
        *([Section("Pairwise comparison on the same test images", pairs)] if pairs else []),
        *(Section(f"{run.name} on the test set", evaluation_blocks(run)) for run in runs),
        Section("Settings", settings_blocks(runs)),
        Section("Provenance", provenance_blocks(runs)),
    ]
    terms = [f"**{term}**: {text}" for term, text in collect_definitions(chapters).items()]
    definitions = Section("Definitions", [Bullets([*DEFINITIONS, *terms])])
    return TEMPLATES.get_template("report.html").render(
        names=", ".join(names),
        when=f"{now or datetime.now(timezone.utc):%Y-%m-%d at %H:%M}",
        body=render_blocks([*chapters, definitions]),
    )


def evaluation_blocks(run: Run) -> list[DocumentBlock]:
    """Return class metrics, confusion matrix and calibration of a run, or only a notice."""
    try:
        metrics = compute_classification_report(run)
        calibration = compute_calibration_report(run)
    except VitdemoError as error:
        return [Notice(str(error))]
    return [
        Text(describe_test_accuracy(metrics)),
        class_metrics_table(metrics),
        *explain_metrics(metrics),
        Section("Confusion matrix", confusion_blocks(count_cells(run))),
        Section(
            "Calibration",
            [*calibration_blocks(calibration), *explain_calibration(calibration, str(run.path))],
        ),
    ]


def ablation_chapters(runs: Sequence[Run]) -> list[Section]:
    """Return a chapter per ablation among the runs, which may be only a notice."""
    by_name, chapters = {run.name: run for run in runs}, []
    for base, names in find_ablations(runs).items():
        others = [by_name[n] for n in names if n != base and by_name[n].has_evaluation]
        try:
            blocks = ablation_blocks(compute_ablation(by_name[base], others))
        except VitdemoError as error:
            blocks = [Notice(str(error))]
        chapters.append(Section(f"Ablation study: changes to the recipe of {base}", blocks))
    return chapters
