"""Report on chosen runs: one self-contained HTML file with figures and tables, without scripts.

    Path("report.html").write_text(report(runs), encoding="utf-8")

All content comes from the run folders, so neither a dataset nor a model is needed. If a run has no
evaluation or no epoch, the report says so. This module computes the content. The template
`templates/report.html` defines the layout and escapes all text.
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
from vitdemo.figures.curves import MANY, LineStyle, curve_plot, line_styles
from vitdemo.metrics import (
    DASH,
    calibrated_runs,
    confusion,
    most_confused,
    pair_sentence,
    signed,
    tested_runs,
)
from vitdemo.metrics.calibrated_runs import Calibration
from vitdemo.metrics.calibration import rest_words, two_sides
from vitdemo.metrics.errors import cells
from vitdemo.metrics.learning import (
    below_validation,
    epoch_count,
    gap,
    images_per_second,
    milestone_rows,
    minutes,
    reasons,
    stages,
    whole,
)
from vitdemo.metrics.paired import holm, mcnemar_sentence, p_words
from vitdemo.metrics.recipe_ablation import ablation_of, ablations, conclusion, gain_rows
from vitdemo.metrics.tested_runs import (
    COLUMNS,
    TITLES,
    ClassTable,
    paired_test,
    three_decimals,
)
from vitdemo.runs import WEIGHTS, Run

PAIRS = 5  # number of most confused pairs; maximum number of pairs of runs with sentences
# Title, unit, whether the line y = 0 is drawn
PLOTS = (
    ("Loss", "loss", False),
    ("Accuracy", "%", False),
    ("Generalisation gap: training minus validation accuracy", "percentage points", True),
    ("Learning rate at the end of each epoch", "learning rate", False),
)


def report_name(runs: Sequence[Run], *, now: datetime | None = None) -> str:
    """Return a file name with the first run, the number of other runs and the time."""
    now = now or datetime.now(timezone.utc)
    first = re.sub(r"[^\w.-]+", "-", runs[0].name)[:60] if runs else "nothing"
    more = f"-and-{len(runs) - 1}-more" if len(runs) > 1 else ""
    return f"report-{first}{more}-{now:%Y-%m-%d-%H%M}.html"


@dataclass(frozen=True)
class Table:
    """Table of texts; the first cell of a row is its heading, and `marked` rows are highlighted."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    marked: Sequence[int] = ()


@dataclass(frozen=True)
class Drawn:
    """Figure as inline `svg` with a `title` and a `label` for screen readers."""

    title: str
    label: str
    svg: str


def report(runs: Sequence[Run], *, order: Sequence[str] = (), now: datetime | None = None) -> str:
    """Return the report as HTML. Raises `RunError` if `runs` is empty.

    `order` lists the names of all runs on the page, so that each run has the same colour as there.
    """
    if not runs:
        raise RunError("Choose at least one run for the report.")
    tests = [tested(run) for run in runs]
    return TEMPLATES.get_template("report.html").render(
        runs=runs,
        names=", ".join(run.name for run in runs),
        when=f"{now or datetime.now(timezone.utc):%Y-%m-%d at %H:%M}",
        models=models_table(runs, tests),
        learning=learning([run for run in runs if run.history], order),
        ablations=recipe_ablations(runs),
        pairs=pairs_of(runs),
        tests=tests,
        settings=split_columns(settings_table(runs)),
        provenance=split_columns(provenance_table(runs)),
    )


def models_table(runs: Sequence[Run], tests: Sequence[Mapping]) -> Table:
    """Return the size and the results of each run; `tests` has the results of `tested`."""
    header = (
        *("Run", "Dataset", "Parameters", "Multiply-adds", "Weights", "Epochs", "Minutes"),
        *("Images/s", "Validation accuracy", "Test accuracy", "Macro F1", "Macro ROC-AUC", "ECE"),
        "Lowest F1",
    )
    return Table(header, [model_row(run, test) for run, test in zip(runs, tests, strict=True)])


def model_row(run: Run, test: Mapping) -> list[str]:
    last, used = run.history[-1] if run.history else None, run.record_of_weights
    weights, speed = run.path / WEIGHTS, images_per_second(run)
    return [
        run.name,
        run.data_name or DASH,
        scaled(run.config.get("parameters"), 1e6, "M"),
        scaled(run.config.get("macs"), 1e6, "M"),
        scaled(weights.stat().st_size if weights.is_file() else None, 1e6, "MB"),
        epoch_count(run),
        f"{minutes(run)[-1]:.1f}" if last else DASH,
        f"{speed:.0f}" if speed else DASH,
        percent(used["val_accuracy"]) if used else DASH,
        *answers_of(run, test),
    ]


def answers_of(run: Run, test: Mapping) -> list[str]:
    """Return accuracy, macro F1 and ROC-AUC, ECE and the class with the lowest F1."""
    if test["problem"]:
        return [DASH] * 5
    found = test["metrics"]
    worst = found.worst_first[0]
    return [
        f"{percent(found.accuracy)} ({percents(found.accuracy_interval)})",
        three_decimals(found.macro["f1"]),
        three_decimals(found.macro["roc_auc"]),
        percent(test["calibration"].before.error),
        f"{run.classes[worst]} ({three_decimals(found.columns['f1'][worst])})",
    ]


def learning(drawn: Sequence[Run], order: Sequence[str] = ()) -> dict | None:
    """Return the training curves, milestones and stages, or None if no run has an epoch.

    Also returns the reasons why a training accuracy is below the validation accuracy.
    """
    if not drawn:
        return None
    names, wholes = [run.name for run in drawn], [whole(run) for run in drawn]
    styles, listed = line_styles(names, order or names), ", ".join(names)
    return {
        "styles": styles,
        "with_training": len(drawn) <= MANY,
        "plots": [
            Drawn(
                title,
                f"{title} of {listed}, by epoch",
                figures.svg(curve_plot(curves(wholes, styles, title), unit, zero=zero)),
            )
            for title, unit, zero in PLOTS
        ],
        "milestones": Table(*milestone_rows(wholes)),
        "stages": [(run.name, stages(run)) for run in drawn],
        "below_validation": [
            {
                "run": run.name,
                "count": below_validation(run),
                "epochs": len(run.history),
                "reasons": reasons(run),
            }
            for run in drawn
            if below_validation(run)
        ],
    }


def curves(runs: Sequence[Run], styles: dict[str, LineStyle], title: str) -> list[Curve]:
    """Return the lines of one of `PLOTS`, with training curves for up to `MANY` runs."""
    drawn = []
    for run in runs:
        epochs = [record["epoch"] for record in run.history]
        for values, training in zip(columns(run, title), (False, True), strict=False):
            if not training or len(runs) <= MANY:
                drawn.append(styles[run.name].curve(epochs, values, training=training))
    return drawn


def columns(run: Run, title: str) -> list[list[float]]:
    """Return the values of one of `PLOTS` for a run: on the validation, then the training set."""

    def column(field: str, scale: float = 1) -> list[float]:
        return [scale * record[field] for record in run.history]

    if title == "Loss":
        return [column("val_loss"), column("train_loss")]
    if title == "Accuracy":
        return [column("val_accuracy", 100), column("train_accuracy", 100)]
    return [gap(run) if title.startswith("Generalisation") else column("learning_rate")]


def pairs_of(runs: Sequence[Run]) -> dict:
    """Compare every two runs on the same test images with McNemar's test."""
    tests, sentences = [], []
    for pair in itertools.combinations(runs, 2):
        try:
            tests.append(paired_test(*pair))
        except VitdemoError as error:
            sentences.append(str(error))
    rows = []
    for found, p in zip(tests, holm([test.overall.p for test in tests]), strict=True):
        rows.append(
            [
                f"{found.first}, {found.second}",
                points(found.overall.difference),
                point_range(*found.overall.interval),
                count(found.overall.first_only),
                count(found.overall.second_only),
                p_words(p),
            ]
        )
        if len(tests) <= PAIRS:  # more sentences would be harder to read than the table
            sentence = mcnemar_sentence(found.overall, found.first, found.second, p=float(p))
            sentences.append(sentence)
    header = ("Models", "Accuracy difference, percentage points", "95% confidence interval")
    header += ("Only first correct", "Only second correct", "McNemar's test (Holm)")
    return {"table": Table(header, rows), "sentences": sentences}


def recipe_ablations(runs: Sequence[Run]) -> list[dict]:
    """Return the results of all ablation studies among the runs."""
    by_name = {run.name: run for run in runs}
    return [
        recipe_ablation(
            by_name[base], [by_name[n] for n in names if n != base and by_name[n].has_evaluation]
        )
        for base, names in ablations(runs).items()
    ]


def recipe_ablation(base: Run, others: Sequence[Run]) -> dict:
    """Return conclusion, plot and table of the ablation study of `base`, or the problem."""
    try:
        found = ablation_of(base, others)
    except VitdemoError as error:
        return {"base": base.name, "sentences": [str(error)], "table": None}
    title = f"Gain in test accuracy over the baseline {base.name}, with 95% confidence intervals"
    label = f"{title}; the numbers are in the table below"
    return {
        "base": base.name,
        "sentences": conclusion(found),
        "plots": [Drawn(title, label, figures.svg(charts.gain_plot(found)))],
        "table": Table(*gain_rows(found)),
    }


def tested(run: Run) -> dict:
    """Return per-class metrics, confusion matrix and calibration of a run, or the problem."""
    try:
        found, calibration = tested_runs.class_table(run), calibrated_runs.calibration(run)
    except VitdemoError as error:
        return {"run": run.name, "problem": str(error)}
    matrix = confusion(run.evaluation.probabilities, run.evaluation.labels)
    return {
        "run": run.name,
        "problem": "",
        "metrics": found,
        "classes": class_table(found),
        "matrix": list(zip(matrix, cells(matrix, "true"), strict=True)),
        "confused": [pair_sentence(pair, run.classes) for pair in most_confused(matrix, PAIRS)],
        "calibration": calibration,
        "sides": two_sides(calibration.before),
        "rest": rest_words(calibration.scaled.reliability) if calibration.scaled else "",
        "plots": calibration_plots(calibration),
    }


def class_table(found: ClassTable) -> Table:
    """Return all metrics of each class and both averages, with confidence intervals if known."""
    rows = [
        [
            name,
            count(found.support[c]),
            *(
                with_interval(found.columns[column][c], found.interval(column, c))
                for column in COLUMNS
            ),
        ]
        for c, name in enumerate(found.classes)
    ]
    for title, means, intervals in (
        ("Macro average", found.macro, found.macro_intervals),
        ("Weighted average", found.weighted, found.weighted_intervals),
    ):
        values = (with_interval(means[column], intervals.get(column)) for column in COLUMNS)
        rows.append([title, "", *values])
    return Table(("Class", "Support", *TITLES.values()), rows)


def calibration_plots(found: Calibration) -> list[Drawn]:
    """Return the reliability diagram and the histogram of confidence."""
    before, scaled = found.before, found.scaled
    dashed = ", dashed after temperature scaling" if scaled else ""
    bands = (scaled.reliability, scaled.chance.band) if scaled else ()
    drawn = (
        (
            f"Reliability: accuracy over confidence{dashed}; wide bars: 95% range if calibrated",
            charts.reliability_plot(before, found.chance.band, *bands),
        ),
        (
            "Confidence of correct and (hatched) incorrect predictions, each adding up to 100%",
            charts.confidence_plot(before.edges, before.right, before.wrong),
        ),
    )
    return [
        Drawn(title, f"{title}, of {found.run}", figures.svg(figure)) for title, figure in drawn
    ]


def settings_table(runs: Sequence[Run]) -> Table:
    """Return all fields of the recipes, one column per run; rows with differences are marked.

    Notes are left out, because they describe the results of other runs.
    """
    recipes = [flat({k: v for k, v in run.config["recipe"].items() if k != "note"}) for run in runs]
    rows = [
        [field, *(recipe.get(field, DASH) for recipe in recipes)]
        for field in dict.fromkeys(itertools.chain.from_iterable(recipes))
    ]
    differ = [i for i, (_, *values) in enumerate(rows) if len(set(values)) > 1]
    return Table(("Field", *(run.name for run in runs)), rows, differ)


def split_columns(table: Table, most: int = 12) -> list[Table]:
    """Split a table into tables of at most `most` columns after the first, which all repeat.

    A page of paper is too narrow for more.
    """
    parts = []
    for start in range(1, len(table.header), most):
        own = slice(start, start + most)
        rows = [[row[0], *row[own]] for row in table.rows]
        parts.append(Table((table.header[0], *table.header[own]), rows, table.marked))
    return parts


def flat(recipe: dict, prefix: str = "") -> dict[str, str]:
    """Flatten nested dicts: {"model": {"family": "vit"}} becomes {"model.family": "vit"}.

    Values become text. Dicts in a list are numbered from 1.
    """
    found = {}
    for key, value in recipe.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            value = {str(number): one for number, one in enumerate(value, 1)}
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{key}.")
        else:
            words = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            found[f"{prefix}{key}"] = words or DASH
    return found


def provenance_table(runs: Sequence[Run]) -> Table:
    keys = ("command", "started", "device", "processes", "git_commit", "started_from", "resumed")
    keys += ("data", "split", "packages", "classes")
    described = [flat({k: run.config[k] for k in keys if k in run.config}) for run in runs]
    fields = dict.fromkeys(itertools.chain.from_iterable(described))
    rows = [[field, *(found.get(field, DASH) for found in described)] for field in fields]
    return Table(("", *(run.name for run in runs)), rows)


def percent(share: float) -> str:
    return DASH if math.isnan(share) else f"{100 * share:.2f}%"


def percents(interval: np.ndarray) -> str:
    return f"{100 * interval[0]:.2f}% to {100 * interval[1]:.2f}%"


def points(share: float) -> str:
    return signed(100 * share, 2)


def point_range(low: float, high: float) -> str:
    return f"{points(low)} to {points(high)}"


def count(number: int) -> str:
    return f"{int(number):,}"


def with_interval(value: float, interval: np.ndarray | None) -> str:
    if interval is None or np.isnan(interval).any():
        return three_decimals(value)
    return f"{three_decimals(value)} ({interval[0]:.3f} to {interval[1]:.3f})"


def scaled(value: float | None, unit: float, name: str) -> str:
    return f"{value / unit:.2f} {name}" if isinstance(value, (int, float)) else DASH


TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters |= {"percent": percent, "percents": percents, "count": count}
