"""ROC and precision-recall curves of chosen classes, of one model or of two."""

from collections.abc import Callable, Sequence

import numpy as np

from vitdemo import figures
from vitdemo.errors import VitdemoError
from vitdemo.explorer.metrics import Ranking, three_decimals
from vitdemo.figures import charts
from vitdemo.metrics.curves import RankingCurve, precision_at
from vitdemo.page import html
from vitdemo.page.metrics.tables import explanations

# One hue a class: 2.9 : 1 or more on white and on the dark theme, apart for the colour-blind too.
COLOURS = ("#0a78c2", "#c45f10", "#17876a", "#a2559a", "#96740a", "#64748b")
MOST = len(COLOURS)
RECALLS = (0.5, 0.8, 0.9, 0.95, 0.99)
POINTS = 201  # of a curve that go into the CSV
WORDS = {
    "ROC curve": "For every threshold, the true positive rate (up: the share of the cats that is "
    "found) and the false positive rate (to the right: the share of all other pictures that is "
    "taken for cats); the dotted line is guessing.",
    "ROC-AUC": "The area under it: how often a cat gets a higher probability of cat than another "
    "picture does.",
    "Precision-recall curve": "For every threshold, recall (to the right: the share of the cats "
    "that is found) and precision (up: the share of what is predicted to be a cat that is one). It "
    "shows more than ROC where a class is rare.",
    "Average precision": "The area under it.",
    "Precision at recall 90 %": "To find 90 % of the cats, this share of what is predicted to be "
    "a cat is one.",
}


def curves_html(
    ranking: Callable[[str, str], Ranking], runs: Sequence[str], classes: Sequence[str]
) -> str:
    """Both figures, their table and their points as CSV; or why there is nothing to draw."""
    if not runs:
        return ""
    if not classes:
        return html.notice("Choose a class above to see its curves.")
    found, problems = [], []
    for class_name in classes[:MOST]:
        for run in runs:
            try:
                found.append(ranking(run, class_name))
            except VitdemoError as error:
                problems.append(str(error))
    if not found:
        return html.notices(problems)
    hue = dict(zip(classes, COLOURS, strict=False))
    return html.notices(problems) + legend(runs, hue) + plots(found, runs, hue) + numbers(found)


def legend(runs: Sequence[str], hue: dict[str, str]) -> str:
    dashes = ["", ' class="vd-dashed"']
    items = (
        f"<span><strong>{html.escape(name)}</strong>"
        + "".join(
            f'<i{dash} style="color: {colour}"></i>{html.escape(run)}'
            for run, dash in zip(runs, dashes, strict=False)
        )
        + "</span>"
        for name, colour in hue.items()
    )
    return f'<div class="vd-curves">{"".join(items)}</div>'


def plots(found: Sequence[Ranking], runs: Sequence[str], hue: dict[str, str]) -> str:
    def line(ranking: Ranking, curve: RankingCurve) -> figures.Curve:
        return figures.Curve(curve.x, curve.y, hue[ranking.name], dashed=ranking.run != runs[0])

    roc = [line(r, r.roc) for r in found if r.roc]
    precision = [line(r, r.precision_recall) for r in found]
    drawn = (
        ("ROC curve", charts.square_plot(
            roc, "false positive rate, %", "true positive rate, %", diagonal=True)),
        ("Precision-recall curve", charts.square_plot(
            precision, "recall, %", "precision, %",
            steps=True, diagonal=False)),
    )  # fmt: skip
    of = f"of {', '.join(hue)}, by {' and '.join(runs)}; its numbers are in the table below"
    cells = (
        f'<figure aria-label="{html.escape(f"{title} {of}")}">'
        f"<figcaption>{title}</figcaption>{figures.svg(figure)}</figure>"
        for title, figure in drawn
    )
    return f'<div class="vd-plots">{"".join(cells)}</div>'


def numbers(found: Sequence[Ranking]) -> str:
    """Areas with intervals, and the precision at some recalls."""
    at = [f"{'… ' if i else 'Precision at recall '}{100 * r:.0f} %" for i, r in enumerate(RECALLS)]
    header = ["Class", "Model", "ROC-AUC", "95 % interval", "Average precision", "95 % interval"]
    rows = [
        (
            r.name,
            r.run,
            three_decimals(r.roc.area if r.roc else np.nan),
            interval(r.area_interval),
            three_decimals(r.precision_recall.area),
            interval(r.precision_interval),
            *(three_decimals(precision_at(r.precision_recall, recall)) for recall in RECALLS),
        )
        for r in found
    ]
    return html.table(header + at, rows) + explanations(WORDS) + f"<p>{points_csv(found)}</p>"


def interval(values: np.ndarray) -> str:
    return "–" if np.isnan(values).any() else f"{values[0]:.3f} to {values[1]:.3f}"


def points_csv(found: Sequence[Ranking]) -> str:
    rows = [
        (r.name, r.run, name, f"{x:.6f}", f"{y:.6f}", f"{threshold:.6g}")
        for r in found
        for name, curve in (("roc", r.roc), ("precision-recall", r.precision_recall))
        if curve
        for x, y, threshold in thinned(curve)
    ]
    header = ("class", "model", "curve", "x", "y", "threshold")
    return html.csv_link(header, rows, "vitdemo-curves.csv")


def thinned(curve: RankingCurve) -> list[tuple[float, float, float]]:
    """At most `POINTS` points, both ends among them."""
    kept = np.unique(np.linspace(0, len(curve.x) - 1, POINTS).round().astype(int))
    return list(zip(curve.x[kept], curve.y[kept], curve.thresholds[kept], strict=True))
