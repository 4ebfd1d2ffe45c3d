"""Accuracy, dot plot and table of the class metrics.

The payload of the view is

    {"summary": blocks, "details": blocks, "plot": see `plot_metrics`, or None without metrics}
"""

import math
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from vitdemo.context import AppContext
from vitdemo.documents import Details, Notice, Text
from vitdemo.errors import VitdemoError
from vitdemo.metrics import DASH
from vitdemo.metrics.classification_report import (
    METRIC_TITLES,
    ClassificationReport,
    compute_classification_report,
)
from vitdemo.page.bridge import document_payload
from vitdemo.page.feature import Feature, ViewData
from vitdemo.page.kit import NO_EVALUATION_MESSAGE
from vitdemo.page.results.models import MODELS, choose_models, describe_menus
from vitdemo.page.view_state import ViewState, needs
from vitdemo.report.class_metrics import (
    METRICS_INTRO,
    class_metrics_table,
    describe_test_accuracy,
    explain_metrics,
)

VIEW = "class_metrics"
PLOTTED_METRICS = ("precision", "recall")
TICK_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2)
MAX_TICKS = 6


@needs(*MODELS)
def payload(context: AppContext, state: ViewState) -> ViewData:
    name, other = choose_models(context, state)
    return ViewData(metrics_to_payload(context, name, other), describe_menus(context, state))


FEATURE = Feature({VIEW: payload})


def metrics_to_payload(context: AppContext, name: str, other: str) -> dict:
    """Return the metrics of the run `name`, or only a notice; "" means that there is no run.

    The plot also shows `other` if its evaluation is valid. Otherwise, the paired test reports this.
    """
    if not name:
        return notice_payload(NO_EVALUATION_MESSAGE)
    try:
        found = context.cache.call(compute_classification_report, context.find_run(name))
    except VitdemoError as error:
        return notice_payload(str(error))
    reports = [found]
    with suppress(VitdemoError):  # without a second model, there is no run ""
        run = context.find_run(other)
        reports.append(context.cache.call(compute_classification_report, run))
    return {
        "summary": document_payload([Text(describe_test_accuracy(found))]),
        "plot": plot_metrics(reports),
        "details": document_payload(
            [
                Details("Table of all metrics", [class_metrics_table(found)]),
                Details("About", [Text(METRICS_INTRO), *explain_metrics(found)]),
            ]
        ),
    }


def notice_payload(message: str) -> dict:
    return {"summary": document_payload([Notice(message)]), "plot": None, "details": []}


def plot_metrics(reports: Sequence[ClassificationReport]) -> dict:
    """Return the plot of precision and recall, with the classes of the first report, worst first.

    The result is {"models": names, "metrics": titles, "ticks": texts by value, "rows": one per
    class}. A row is {"name", "isTested", "spoken", "marks": one list per metric}. A list contains a
    mark [value, low, high] or None per model.
    """
    first = reports[0]
    rows = [plot_row(reports, first.classes[c], bool(first.support[c])) for c in first.worst_first]
    marks = [mark for row in rows for several in row["marks"] for mark in several if mark]
    return {
        "models": [report.run for report in reports],
        "metrics": [METRIC_TITLES[name] for name in PLOTTED_METRICS],
        "ticks": choose_ticks(min((low for _, low, _ in marks), default=0.0)),
        "rows": rows,
    }


def plot_row(reports: Sequence[ClassificationReport], name: str, is_tested: bool) -> dict:
    marks = [[find_mark(report, metric, name) for report in reports] for metric in PLOTTED_METRICS]
    values = "; ".join(map(describe_marks, PLOTTED_METRICS, marks))
    return {"name": name, "isTested": is_tested, "spoken": f"{name}: {values}", "marks": marks}


def find_mark(
    report: ClassificationReport, metric: str, name: str
) -> tuple[float, float, float] | None:
    """Return value and interval of a metric of the class `name`, or None without a value."""
    if name not in report.classes:
        return None
    c = report.classes.index(name)
    mark = (report.columns[metric][c], *report.intervals[metric][:, c])
    return None if np.isnan(mark).any() else tuple(round(float(each), 5) for each in mark)


def describe_marks(metric: str, marks: Sequence[tuple[float, float, float] | None]) -> str:
    """Describe a metric of each model, such as "recall 0.938 (0.921 to 0.951)"."""
    texts = [f"{mark[0]:.3f} ({mark[1]:.3f} to {mark[2]:.3f})" if mark else DASH for mark in marks]
    return f"{metric} {', compared with '.join(texts)}"


def choose_ticks(low: float) -> list[float]:
    """Return round values in equal steps, from at most `low` to 1."""
    for step in TICK_STEPS:
        steps = math.ceil((1 - low) / step - 1e-9)
        if steps < MAX_TICKS:
            break
    return [round(1 - step * i, 2) for i in range(max(steps, 1), -1, -1)]
