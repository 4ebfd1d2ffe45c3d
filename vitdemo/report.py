"""Report on chosen runs: one self-contained HTML file with figures and tables, without scripts.

    Path("report.html").write_text(render_report(runs), encoding="utf-8")

All content comes from the run folders, so neither a dataset nor a model is needed. For a run
without an evaluation or an epoch, the report has a message. This module computes the content. The
template `templates/report.html` defines the layout and escapes all text.
"""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from vitdemo import figures
from vitdemo.errors import RunError, VitdemoError
from vitdemo.figures import Curve, charts
from vitdemo.figures.curves import MAX_TRAINING_CURVES, LineStyle, choose_line_styles, plot_curves
from vitdemo.metrics import (
    DASH,
    calibration_report,
    classification_report,
    confusion_matrix,
    describe_pair,
    format_signed,
    most_confused_pairs,
)
from vitdemo.metrics.calibration import describe_worst_bin, split_by_overconfidence
from vitdemo.metrics.calibration_report import CalibrationReport
from vitdemo.metrics.classification_report import (
    METRIC_NAMES,
    METRIC_TITLES,
    ClassificationReport,
    compare_runs,
    format_three_decimals,
)
from vitdemo.metrics.error_selection import normalise_confusion
from vitdemo.metrics.paired import describe_mcnemar, format_p_value, holm
from vitdemo.metrics.recipe_ablation import (
    ablation_table,
    compute_ablation,
    find_ablations,
    summarise_ablation,
)
from vitdemo.metrics.training_progress import (
    count_epochs_below_validation,
    elapsed_minutes,
    explain_low_training_accuracy,
    format_epoch_count,
    generalisation_gap,
    list_stage_changes,
    median_images_per_second,
    milestone_rows,
    with_lineage_history,
)
from vitdemo.runs import WEIGHTS_FILE, Run

MAX_PAIRS = 5  # limit for pairs of confused classes, and for pairs of runs
# (title, unit, whether the line y = 0 is drawn)
PLOTS = (
    ("Loss", "loss", False),
    ("Accuracy", "%", False),
    ("Generalisation gap: training minus validation accuracy", "percentage points", True),
    ("Learning rate at the end of each epoch", "learning rate", False),
)


def get_report_name(runs: Sequence[Run], *, now: datetime | None = None) -> str:
    """Return the report's file name: first run, number of other runs, and time."""
    now = now or datetime.now(timezone.utc)
    first = re.sub(r"[^\w.-]+", "-", runs[0].name)[:60] if runs else "nothing"
    more = f"-and-{len(runs) - 1}-more" if len(runs) > 1 else ""
    return f"report-{first}{more}-{now:%Y-%m-%d-%H%M}.html"


@dataclass(frozen=True)
class ReportTable:
    """Table of texts; the first cell of a row is its heading, and `marked` rows are highlighted."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    marked: Sequence[int] = ()


@dataclass(frozen=True)
class SvgFigure:
    """Figure of the report: inline `svg`, with a `title` and a `label` for screen readers."""

    title: str
    label: str
    svg: str


def render_report(
    runs: Sequence[Run], *, order: Sequence[str] = (), now: datetime | None = None
) -> str:
    """Return the report as HTML. Raises `RunError` if `runs` is empty.

    `order` lists the names of all runs on the page, so that colours are the same as there.
    """
    if not runs:
        raise RunError("Choose at least one run for the report.")
    tests = [evaluation_section(run) for run in runs]
    return TEMPLATES.get_template("report.html").render(
        runs=runs,
        names=", ".join(run.name for run in runs),
        when=f"{now or datetime.now(timezone.utc):%Y-%m-%d at %H:%M}",
        models=models_table(runs, tests),
        learning=training_section([run for run in runs if run.history], order),
        ablations=ablation_sections(runs),
        pairs=compare_pairs(runs),
        tests=tests,
        settings=split_columns(settings_table(runs)),
        provenance=split_columns(provenance_table(runs)),
    )


def models_table(runs: Sequence[Run], tests: Sequence[Mapping]) -> ReportTable:
    """Return the size and the results of each run; `tests` has the test results."""
    header = (
        *("Run", "Dataset", "Parameters", "Multiply-adds", "Weights", "Epochs", "Minutes"),
        *("Images/s", "Validation accuracy", "Test accuracy", "Macro F1", "Macro ROC-AUC", "ECE"),
        "Lowest F1",
    )
    return ReportTable(
        header, [model_row(run, test) for run, test in zip(runs, tests, strict=True)]
    )


def model_row(run: Run, test: Mapping) -> list[str]:
    last, weights_record = run.history[-1] if run.history else None, run.weights_record
    weights, speed = run.path / WEIGHTS_FILE, median_images_per_second(run)
    return [
        run.name,
        run.dataset_name or DASH,
        format_scaled(run.config.get("parameters"), 1e6, "M"),
        format_scaled(run.config.get("macs"), 1e6, "M"),
        format_scaled(weights.stat().st_size if weights.is_file() else None, 1e6, "MB"),
        format_epoch_count(run),
        f"{elapsed_minutes(run)[-1]:.1f}" if last else DASH,
        f"{speed:.0f}" if speed else DASH,
        format_percent(weights_record["val_accuracy"]) if weights_record else DASH,
        *prediction_cells(run, test),
    ]


def prediction_cells(run: Run, test: Mapping) -> list[str]:
    """Return table cells: accuracy, macro F1 and ROC-AUC, ECE and the class with the lowest F1."""
    if test["problem"]:
        return [DASH] * 5
    report = test["metrics"]
    worst = report.worst_first[0]
    return [
        f"{format_percent(report.accuracy)} ({format_percent_interval(report.accuracy_interval)})",
        format_three_decimals(report.macro["f1"]),
        format_three_decimals(report.macro["roc_auc"]),
        format_percent(test["calibration"].reliability.calibration_error),
        f"{run.classes[worst]} ({format_three_decimals(report.columns['f1'][worst])})",
    ]


def training_section(runs: Sequence[Run], order: Sequence[str] = ()) -> dict | None:
    """Return the training curves, milestones and stages, or None if no run has an epoch.

    The result also contains reasons why a training accuracy is below the validation accuracy.
    """
    if not runs:
        return None
    names, full_runs = [run.name for run in runs], [with_lineage_history(run) for run in runs]
    styles, run_names = choose_line_styles(names, order or names), ", ".join(names)
    return {
        "styles": styles,
        "with_training": len(runs) <= MAX_TRAINING_CURVES,
        "plots": [
            SvgFigure(
                title,
                f"{title} of {run_names}, by epoch",
                figures.figure_to_svg(
                    plot_curves(plot_lines(full_runs, styles, title), unit, zero=zero)
                ),
            )
            for title, unit, zero in PLOTS
        ],
        "milestones": ReportTable(*milestone_rows(full_runs)),
        "stages": [(run.name, list_stage_changes(run)) for run in runs],
        "below_validation": [
            {
                "run": run.name,
                "count": count_epochs_below_validation(run),
                "epochs": len(run.history),
                "reasons": explain_low_training_accuracy(run),
            }
            for run in runs
            if count_epochs_below_validation(run)
        ],
    }


def plot_lines(runs: Sequence[Run], styles: dict[str, LineStyle], title: str) -> list[Curve]:
    """Return the lines of a plot; more than `MAX_TRAINING_CURVES` runs have no training curves."""
    curves = []
    for run in runs:
        epochs = [record["epoch"] for record in run.history]
        for values, training in zip(plot_values(run, title), (False, True), strict=False):
            if not training or len(runs) <= MAX_TRAINING_CURVES:
                curves.append(styles[run.name].curve(epochs, values, training=training))
    return curves


def plot_values(run: Run, title: str) -> list[list[float]]:
    """Return the values of one of `PLOTS` for a run: on the validation, then the training set."""

    def column(field: str, scale: float = 1) -> list[float]:
        return [scale * record[field] for record in run.history]

    if title == "Loss":
        return [column("val_loss"), column("train_loss")]
    if title == "Accuracy":
        return [column("val_accuracy", 100), column("train_accuracy", 100)]
    return [
        generalisation_gap(run) if title.startswith("Generalisation") else column("learning_rate")
    ]


def compare_pairs(runs: Sequence[Run]) -> dict:
    """Compare every two runs on the same test images with McNemar's test."""
    tests, sentences = [], []
    for pair in itertools.combinations(runs, 2):
        try:
            tests.append(compare_runs(*pair))
        except VitdemoError as error:
            sentences.append(str(error))
    rows = []
    for test, p in zip(tests, holm([test.overall.p for test in tests]), strict=True):
        rows.append(
            [
                f"{test.first}, {test.second}",
                format_points(test.overall.difference),
                format_point_range(*test.overall.interval),
                format_count(test.overall.first_only),
                format_count(test.overall.second_only),
                format_p_value(p),
            ]
        )
        if len(tests) <= MAX_PAIRS:  # the table is easier to read than many sentences
            sentence = describe_mcnemar(test.overall, test.first, test.second, p=float(p))
            sentences.append(sentence)
    header = ("Models", "Accuracy difference, percentage points", "95% confidence interval")
    header += ("Only first correct", "Only second correct", "McNemar's test (Holm)")
    return {"table": ReportTable(header, rows), "sentences": sentences}


def ablation_sections(runs: Sequence[Run]) -> list[dict]:
    """Return the results of all ablation studies among the runs."""
    by_name = {run.name: run for run in runs}
    return [
        ablation_section(
            by_name[base], [by_name[n] for n in names if n != base and by_name[n].has_evaluation]
        )
        for base, names in find_ablations(runs).items()
    ]


def ablation_section(base: Run, others: Sequence[Run]) -> dict:
    """Return conclusion, plot and table of the ablation study of `base`, or an error message."""
    try:
        ablation = compute_ablation(base, others)
    except VitdemoError as error:
        return {"base": base.name, "sentences": [str(error)], "table": None}
    title = f"Gain in test accuracy over the baseline {base.name}, with 95% confidence intervals"
    label = f"{title}; the numbers are in the table below"
    return {
        "base": base.name,
        "sentences": summarise_ablation(ablation),
        "plots": [SvgFigure(title, label, figures.figure_to_svg(charts.plot_gains(ablation)))],
        "table": ReportTable(*ablation_table(ablation)),
    }


def evaluation_section(run: Run) -> dict:
    """Return per-class metrics, confusion matrix and calibration of a run, or an error message."""
    try:
        metrics = classification_report.compute_classification_report(run)
        calibration = calibration_report.compute_calibration_report(run)
    except VitdemoError as error:
        return {"run": run.name, "problem": str(error)}
    matrix = confusion_matrix(run.evaluation.probabilities, run.evaluation.labels)
    return {
        "run": run.name,
        "problem": "",
        "metrics": metrics,
        "classes": class_metrics_table(metrics),
        "matrix": list(zip(matrix, normalise_confusion(matrix, "true"), strict=True)),
        "confused": [
            describe_pair(pair, run.classes) for pair in most_confused_pairs(matrix, MAX_PAIRS)
        ],
        "calibration": calibration,
        "sides": split_by_overconfidence(calibration.reliability),
        "rest": describe_worst_bin(calibration.scaled.reliability) if calibration.scaled else "",
        "plots": calibration_plots(calibration),
    }


def class_metrics_table(metrics: ClassificationReport) -> ReportTable:
    """Return the table of all metrics per class and both averages, with confidence intervals."""
    rows = [
        [
            name,
            format_count(metrics.support[c]),
            *(
                format_with_interval(metrics.columns[column][c], metrics.interval(column, c))
                for column in METRIC_NAMES
            ),
        ]
        for c, name in enumerate(metrics.classes)
    ]
    for title, means, intervals in (
        ("Macro average", metrics.macro, metrics.macro_intervals),
        ("Weighted average", metrics.weighted, metrics.weighted_intervals),
    ):
        values = (
            format_with_interval(means[column], intervals.get(column)) for column in METRIC_NAMES
        )
        rows.append([title, "", *values])
    return ReportTable(("Class", "Support", *METRIC_TITLES.values()), rows)


def calibration_plots(report: CalibrationReport) -> list[SvgFigure]:
    """Return the reliability diagram and the histogram of confidence."""
    before, scaled = report.reliability, report.scaled
    dashed = ", dashed after temperature scaling" if scaled else ""
    bands = (scaled.reliability, scaled.chance.band) if scaled else ()
    plots = (
        (
            f"Reliability: accuracy over confidence{dashed}; wide bars: 95% range if calibrated",
            charts.plot_reliability(before, report.chance.band, *bands),
        ),
        (
            "Confidence of correct and (hatched) incorrect predictions, each adding up to 100%",
            charts.plot_confidence(before.edges, before.correct, before.incorrect),
        ),
    )
    return [
        SvgFigure(title, f"{title}, of {report.run}", figures.figure_to_svg(figure))
        for title, figure in plots
    ]


def settings_table(runs: Sequence[Run]) -> ReportTable:
    """Return all fields of the recipes, one column per run; rows with differences are marked.

    Notes are left out, because they describe the results of other runs.
    """
    recipes = [
        flatten_dict({k: v for k, v in run.config["recipe"].items() if k != "note"}) for run in runs
    ]
    rows = [
        [field, *(recipe.get(field, DASH) for recipe in recipes)]
        for field in dict.fromkeys(itertools.chain.from_iterable(recipes))
    ]
    marked = [i for i, (_, *values) in enumerate(rows) if len(set(values)) > 1]
    return ReportTable(("Field", *(run.name for run in runs)), rows, marked)


def split_columns(table: ReportTable, max_columns: int = 12) -> list[ReportTable]:
    """Split a table into tables of the first column and at most `max_columns` others each.

    A page of paper is too narrow for more columns.
    """
    parts = []
    for start in range(1, len(table.header), max_columns):
        columns = slice(start, start + max_columns)
        rows = [[row[0], *row[columns]] for row in table.rows]
        parts.append(ReportTable((table.header[0], *table.header[columns]), rows, table.marked))
    return parts


def flatten_dict(recipe: dict, prefix: str = "") -> dict[str, str]:
    """Flatten nested dicts: {"model": {"family": "vit"}} becomes {"model.family": "vit"}.

    Values become text. Dicts in a list are numbered from 1.
    """
    flat = {}
    for key, value in recipe.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            value = {str(number): item for number, item in enumerate(value, 1)}
        if isinstance(value, dict):
            flat |= flatten_dict(value, f"{prefix}{key}.")
        else:
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            flat[f"{prefix}{key}"] = text or DASH
    return flat


def provenance_table(runs: Sequence[Run]) -> ReportTable:
    keys = ("command", "started", "device", "processes", "git_commit", "started_from", "resumed")
    keys += ("data", "split", "packages", "classes")
    entries = [flatten_dict({k: run.config[k] for k in keys if k in run.config}) for run in runs]
    fields = dict.fromkeys(itertools.chain.from_iterable(entries))
    rows = [[field, *(entry.get(field, DASH) for entry in entries)] for field in fields]
    return ReportTable(("", *(run.name for run in runs)), rows)


def format_percent(fraction: float) -> str:
    return DASH if math.isnan(fraction) else f"{100 * fraction:.2f}%"


def format_percent_interval(interval: np.ndarray) -> str:
    return f"{100 * interval[0]:.2f}% to {100 * interval[1]:.2f}%"


def format_points(fraction: float) -> str:
    return format_signed(100 * fraction, 2)


def format_point_range(low: float, high: float) -> str:
    return f"{format_points(low)} to {format_points(high)}"


def format_count(number: int) -> str:
    return f"{int(number):,}"


def format_with_interval(value: float, interval: np.ndarray | None) -> str:
    if interval is None or np.isnan(interval).any():
        return format_three_decimals(value)
    return f"{format_three_decimals(value)} ({interval[0]:.3f} to {interval[1]:.3f})"


def format_scaled(value: float | None, unit: float, name: str) -> str:
    return f"{value / unit:.2f} {name}" if isinstance(value, (int, float)) else DASH


TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters |= {
    "percent": format_percent,
    "percents": format_percent_interval,
    "count": format_count,
}
