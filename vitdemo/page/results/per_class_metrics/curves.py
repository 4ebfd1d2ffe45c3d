"""ROC and precision-recall curves of chosen classes, for one or two models, as a document."""

from collections.abc import Sequence

import numpy as np

from vitdemo import figures
from vitdemo.context import AppContext
from vitdemo.documents import (
    Details,
    DocumentBlock,
    Download,
    Figure,
    Legend,
    LegendEntry,
    Notice,
    Plots,
    Text,
)
from vitdemo.documents.table import Column, Row, Table
from vitdemo.errors import VitdemoError
from vitdemo.figures import charts
from vitdemo.figures.curves import HUES
from vitdemo.metrics.classification_report import (
    ClassificationReport,
    RankingReport,
    compute_classification_report,
    compute_ranking_report,
)
from vitdemo.metrics.ranking_curves import RankingCurve, precision_at
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import document_payload
from vitdemo.page.feature import Feature, ViewData
from vitdemo.page.results.models import MODELS, choose_models
from vitdemo.page.view_state import ViewState, needs
from vitdemo.report.class_metrics import number_cell

VIEW = "ranking_curves"
RECALL_LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
MAX_CSV_POINTS = 201  # maximum number of points per curve in the CSV file
RANKING_CURVES_INTRO = (
    "The model computes a probability of cat for every image. An image is classified as a cat if "
    "this probability reaches a threshold. With a lower threshold, more of the cats are "
    "classified as cats, but also more of the other images. Each curve shows all thresholds. The "
    "page starts with the curves of the class with the lowest F1."
)
RANKING_TERMS = {
    "ROC curve": "True positive rate (y-axis: fraction of cats predicted as cat) against false "
    "positive rate (x-axis: fraction of other images predicted as cat) for every threshold. The "
    "dotted line is random guessing.",
    "ROC-AUC": "Area under the ROC curve: the probability that the model computes a higher "
    "probability of cat for a cat than for another image.",
    "Precision-recall curve": "Precision (y-axis: fraction of cats among the images predicted as "
    "cat) against recall (x-axis: fraction of cats predicted as cat) for every threshold. This "
    "curve is more informative than the ROC curve if a class is rare.",
    "Average precision": "Precision averaged over all thresholds, weighted by the gain in recall.",
    "Precision at recall 0.9": "Precision at the threshold that finds 90% of the cats.",
}


@needs(*MODELS, keys.CURVE_CLASSES)
def payload(context: AppContext, state: ViewState) -> ViewData:
    """Return the document of the curves, and the classes to choose from.

    The document is empty if the view of the class metrics reports an error.
    """
    name, other = choose_models(context, state)
    wanted = state[keys.CURVE_CLASSES]
    try:
        report = context.cache.call(compute_classification_report, context.find_run(name))
    except VitdemoError:
        return ViewData([], {keys.CURVE_CLASSES.name: {"choices": [], "value": wanted}})
    choices, chosen = choose_classes(report, wanted)
    blocks = ranking_blocks(context, [each for each in (name, other) if each], chosen)
    menu = {"choices": [(each, each) for each in choices], "value": chosen}
    return ViewData(document_payload(blocks), {keys.CURVE_CLASSES.name: menu})


FEATURE = Feature({VIEW: payload})


def choose_classes(
    report: ClassificationReport, wanted: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return all tested classes, and at most `keys.MAX_CURVE_CLASSES` tested classes of `wanted`.

    If no wanted class was tested, choose the class with the lowest F1. Keep an empty choice.
    """
    tested = [c for c, n in zip(report.classes, report.support, strict=True) if n]
    kept = [c for c in wanted if c in tested][: keys.MAX_CURVE_CLASSES]
    worst = report.classes[report.worst_first[0]]
    return tested, kept if kept or not wanted else [worst]


def ranking_blocks(
    context: AppContext, runs: Sequence[str], classes: Sequence[str]
) -> list[DocumentBlock]:
    """Return ROC and precision-recall curves, a table and a download, or only a notice."""
    if not classes:
        return [Notice("Choose a class above to see its curves.")]
    found, problems = [], []
    for class_name in classes:
        for run in runs:
            try:
                found.append(
                    context.cache.call(compute_ranking_report, context.find_run(run), class_name)
                )
            except VitdemoError as error:
                problems.append(Notice(str(error)))
    if not found:
        return problems
    hue = dict(zip(classes, HUES, strict=False))
    legend = {
        name: [LegendEntry(run, colour, dashed=run != runs[0]) for run in runs]
        for name, colour in hue.items()
    }
    return [
        *problems,
        Legend(legend),
        ranking_plots(found, runs, hue),
        ranking_table(found),
        ranking_download(found),
        Details("About", [Text(RANKING_CURVES_INTRO)]),
    ]


def ranking_plots(
    reports: Sequence[RankingReport], runs: Sequence[str], hue: dict[str, str]
) -> Plots:
    def line(ranking: RankingReport, curve: RankingCurve) -> figures.Curve:
        return figures.Curve(curve.x, curve.y, hue[ranking.name], dashed=ranking.run != runs[0])

    roc = charts.plot_ranking_curves(
        [line(r, r.roc) for r in reports if r.roc],
        "false positive rate",
        "true positive rate",
        diagonal=True,
    )
    precision = charts.plot_ranking_curves(
        [line(r, r.precision_recall) for r in reports],
        "recall",
        "precision",
        steps=True,
        diagonal=False,
    )
    of = f"of {', '.join(hue)}, by {' and '.join(runs)}; the table below contains the values"
    return Plots(
        [
            Figure(title, f"{title} {of}", figures.figure_to_svg(plot))
            for title, plot in (("ROC curve", roc), ("Precision-recall curve", precision))
        ]
    )


def ranking_table(reports: Sequence[RankingReport]) -> Table:
    """Return a table of the areas with their intervals, and of the precision at fixed recalls."""
    first, *others = [f"{recall:g}" for recall in RECALL_LEVELS]
    columns = ["Class", Column("Model", numeric=False), "ROC-AUC", "Average precision"]
    columns += [f"Precision at recall {first}", *(f"… {other}" for other in others)]
    rows = [ranking_row(r) for r in reports]
    return Table(columns, rows, file="vitdemo-areas", terms=RANKING_TERMS)


def ranking_row(report: RankingReport) -> Row:
    area = report.roc.area if report.roc else np.nan
    precision = report.precision_recall
    at = [number_cell(precision_at(precision, recall)) for recall in RECALL_LEVELS]
    return [
        report.name,
        report.run,
        number_cell(area, report.area_interval),
        number_cell(precision.area, report.precision_interval),
        *at,
    ]


def ranking_download(reports: Sequence[RankingReport]) -> Download:
    """Return a CSV download with the points of all curves, at most `MAX_CSV_POINTS` per curve."""
    rows = [
        [r.name, r.run, name, *(f"{value:.5f}" for value in point)]
        for r in reports
        for name, curve in (("ROC", r.roc), ("precision-recall", r.precision_recall))
        if curve
        for point in subsample_curve(curve)
    ]
    header = ("class", "model", "curve", "x", "y", "threshold")
    return Download("Points of the curves", "vitdemo-curves", header, rows)


def subsample_curve(curve: RankingCurve) -> list[tuple[float, float, float]]:
    """Return at most `MAX_CSV_POINTS` points of `curve`, including both ends."""
    kept = np.unique(np.linspace(0, len(curve.x) - 1, MAX_CSV_POINTS).round().astype(int))
    return list(zip(curve.x[kept], curve.y[kept], curve.thresholds[kept], strict=True))
