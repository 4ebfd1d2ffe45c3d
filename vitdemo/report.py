"""Chosen runs as one HTML file that is whole by itself: figures, tables, settings; no script.

    Path("report.html").write_text(report(runs), encoding="utf-8")

Everything comes from the run folders, so neither a data set nor a model is needed. What a run does
not have (an evaluation, an epoch) is said to be missing, never left out silently.
"""

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from html import escape
from pathlib import Path

import numpy as np

from vitdemo import figures
from vitdemo.errors import RunError, VitdemoError
from vitdemo.explorer.calibration import Calibration, calibration_of
from vitdemo.explorer.ingredients import ablation_of, ablations, conclusion
from vitdemo.explorer.metrics import (
    COLUMNS,
    TITLES,
    ClassTable,
    paired_test_of,
    table_of,
    three_decimals,
)
from vitdemo.figures import Curve, charts
from vitdemo.figures.curves import MANY, Pen, curve_plot, pens
from vitdemo.metrics import confusion, most_confused, pair_sentence
from vitdemo.metrics.calibration import two_sides
from vitdemo.metrics.errors import cells
from vitdemo.metrics.learning import (
    below_validation,
    gap,
    images_per_second,
    milestones,
    minutes,
    reached,
    reasons,
    record_of_weights,
    stages,
)
from vitdemo.metrics.paired import holm, mcnemar_sentence, p_words
from vitdemo.runs import WEIGHTS, Run

DASH = "–"
PAIRS = 5  # most confused pairs of a run; pairs of runs that are told in sentences too
STYLE = (Path(__file__).parent / "report.css").read_text(encoding="utf-8")
# Title, unit, whether 0 is drawn
PLOTS = (
    ("Loss", "loss", False),
    ("Accuracy", "%", False),
    ("Generalisation gap: training minus validation accuracy", "points", True),
    ("Learning rate at the epoch's end", "learning rate", False),
)


def report_name(runs: Sequence[Run], *, now: datetime | None = None) -> str:
    """A file name that tells one report from another: its first run, how many more, and when."""
    now = now or datetime.now(timezone.utc)
    first = re.sub(r"[^\w.-]+", "-", runs[0].name)[:60] if runs else "nothing"
    more = f"-and-{len(runs) - 1}-more" if len(runs) > 1 else ""
    return f"report-{first}{more}-{now:%Y-%m-%d-%H%M}.html"


def report(runs: Sequence[Run], *, order: Sequence[str] = (), now: datetime | None = None) -> str:
    """The whole page. Raises `RunError` where no run is chosen.

    `order` has the names of all runs that a page shows, so that each has its colour there.
    """
    if not runs:
        raise RunError("Choose at least one run for the report.")
    now = now or datetime.now(timezone.utc)
    names = ", ".join(run.name for run in runs)
    parts = [
        f"<h1>Training report</h1><p class=quiet>{escape(names)}; written by vitdemo on "
        f"{now:%Y-%m-%d at %H:%M} UTC.</p>",
        "<h2>The models</h2>",
        models_table(runs),
        "<h2>How they learned</h2>",
        learning(runs, order),
        ingredients_section(runs),
        pairs_section(runs),
        *map(test_section, runs),
        "<h2>Settings</h2>",
        "<p class=quiet>Rows in which the runs differ are marked.</p>" if len(runs) > 1 else "",
        settings_table(runs),
        "<h2>Made with</h2>",
        provenance_table(runs),
        NOTES,
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(names)}: training report</title><style>{STYLE}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


NOTES = (
    "<h2>How to read this</h2><ul>"
    "<li><b>Validation</b> pictures are held out of training and choose nothing but, where a "
    "recipe has patience, the epoch that is kept. <b>Test</b> pictures are for the end.</li>"
    "<li><b>Precision</b>: of all pictures predicted to be of a class, how many are. "
    "<b>Recall</b>: of all pictures of a class, how many are predicted to be of it. "
    "<b>F1</b>: their harmonic mean. "
    "<b>Average precision</b>: the area under the precision-recall curve. "
    "<b>ROC-AUC</b>: how surely a picture of the class gets a higher probability of it than "
    "another does. The macro average counts every class alike, the weighted average as often as it "
    "has pictures.</li>"
    "<li><b>95 % intervals</b> hold the figure for all pictures of the same kind 19 times in 20: "
    "those of accuracy, precision and recall are Wilson's (1927), of F1 and means drawn "
    "(bootstrap), those between two models adjusted Wald ones (Agresti &amp; Min 2005). What "
    "another seed of the training would change is not in them.</li>"
    "<li><b>McNemar's test</b> (exact) asks whether two models that were equally good would "
    "disagree so unevenly on the same pictures; p is the chance of that, after Holm's correction "
    "for the number of tests in its table: all verdicts together raise a false alarm 1 time in 20 "
    "at most.</li>"
    "<li><b>Calibration error</b>: the mean gap between how sure a model is and how often it is "
    "right, in 15 bins (Guo et al. 2017). The temperature is fitted on validation pictures.</li>"
    f"<li>{DASH} stands for what was not measured, or is not defined.</li></ul>"
)


def models_table(runs: Sequence[Run]) -> str:
    header = (
        *("Run", "Data set", "Parameters", "Multiply-adds", "Weights", "Epochs", "Minutes"),
        *(
            "Images/s",
            "Validation",
            "Test",
            "Macro F1",
            "Macro ROC-AUC",
            "Calibration error",
            "Worst class",
        ),
    )
    return table(header, [model_row(run) for run in runs])


def model_row(run: Run) -> list[str]:
    last, used = run.history[-1] if run.history else None, record_of_weights(run)
    weights, speed = run.path / WEIGHTS, images_per_second(run)
    return [
        run.name,
        run.data_name or DASH,
        scaled(run.config.get("parameters"), 1e6, "M"),
        scaled(run.config.get("macs"), 1e6, "M"),
        scaled(weights.stat().st_size if weights.is_file() else None, 1e6, "MB"),
        str(last["epoch"]) if last else "0",
        f"{minutes(run)[-1]:.1f}" if last else DASH,
        f"{speed:.0f}" if speed else DASH,
        percent(used["val_accuracy"]) if used else DASH,
        *test_figures(run),
    ]


def test_figures(run: Run) -> list[str]:
    """Accuracy, macro F1 and ROC-AUC, calibration error and the class with the lowest F1."""
    try:
        found, calibration = table_of(run), calibration_of(run)
    except VitdemoError:
        return [DASH] * 5
    worst = found.worst_first[0]
    return [
        f"{percent(found.accuracy)} ({percents(found.accuracy_interval)})",
        three_decimals(found.macro["f1"]),
        three_decimals(found.macro["roc_auc"]),
        percent(calibration.before.error),
        f"{run.classes[worst]} ({three_decimals(found.columns['f1'][worst])})",
    ]


def learning(runs: Sequence[Run], order: Sequence[str] = ()) -> str:
    """Plots of all runs under one legend, milestones, stages, and why training may look worse."""
    drawn = [run for run in runs if run.history]
    missing = [f"<p>{escape(run.name)}: no epoch has ended yet.</p>" for run in runs
               if not run.history]  # fmt: skip
    if not drawn:
        return "".join(missing)
    names = [run.name for run in drawn]
    pen, listed = pens(names, order or names), ", ".join(names)
    legend = "".join(
        f'<span><b>{escape(name)}</b> <i style="color: {own.colour}"></i> {own.sign} validation '
        + (
            f'<i class="dashed" style="color: {own.lighter}"></i> training</span>'
            if len(drawn) <= MANY
            else "</span>"
        )
        for name, own in pen.items()
    )
    plots = "".join(
        f'<figure aria-label="{escape(f"{title} of {listed}, by epoch")}">'
        f"<figcaption>{escape(title)}</figcaption>"
        f"{figures.svg(curve_plot(curves(drawn, pen, title), unit, zero=zero))}</figure>"
        for title, unit, zero in PLOTS
    )
    return (
        f'<p class="legend">{legend}</p><div class="plots">{plots}</div>{"".join(missing)}'
        "<h3>Epochs and minutes to a validation accuracy</h3>"
        f"{milestones_table(drawn)}{''.join(map(stage_words, drawn))}{gap_words(drawn)}"
    )


def curves(runs: Sequence[Run], pen: dict[str, Pen], title: str) -> list[Curve]:
    """The lines of one of `PLOTS`; of more than `MANY` runs those of training are left out."""
    return [
        pen[run.name].curve([record["epoch"] for record in run.history], values, training=training)
        for run in runs
        for values, training in zip(columns(run, title), (False, True), strict=False)
        if not training or len(runs) <= MANY
    ]


def columns(run: Run, title: str) -> list[list[float]]:
    """What one of `PLOTS` draws of a run: on validation pictures, then on training pictures."""

    def column(field: str, scale: float = 1) -> list[float]:
        return [scale * record[field] for record in run.history]

    if title == "Loss":
        return [column("val_loss"), column("train_loss")]
    if title == "Accuracy":
        return [column("val_accuracy", 100), column("train_accuracy", 100)]
    return [gap(run) if title.startswith("Generalisation") else column("learning_rate")]


def milestones_table(runs: Sequence[Run]) -> str:
    shares = milestones(runs)
    header = ("Run", *(f"{100 * share:.0f} %" for share in shares), "Last epoch")
    rows = []
    for run in runs:
        known = {found.share: found for found in reached(run, shares)}
        cells = [
            f"epoch {known[share].epoch}, {known[share].minutes:.1f} min"
            if share in known
            else DASH
            for share in shares
        ]
        rows.append([run.name, *cells, percent(run.history[-1]["val_accuracy"])])
    return table(header, rows)


def stage_words(run: Run) -> str:
    found = stages(run)
    if not found:
        return ""
    words = "; ".join(f"{stage.when}: {stage.words}" for stage in found)
    return f"<p><b>{escape(run.name)}</b>, {escape(words)}.</p>"


def gap_words(runs: Sequence[Run]) -> str:
    """Why training is below validation, for the runs where it is."""
    parts = [
        f"<h3>Why {escape(run.name)} looks worse in training than in validation</h3>"
        f"<p>Its training accuracy was below validation accuracy in {below_validation(run)} of "
        f"{len(run.history)} epochs.</p>"
        f"<ul>{''.join(f'<li>{escape(reason)}</li>' for reason in reasons(run))}</ul>"
        for run in runs
        if below_validation(run)
    ]
    return "".join(parts)


def pairs_section(runs: Sequence[Run]) -> str:
    """Every two runs on the same test pictures, with McNemar's test; nothing of a single run."""
    tests, words = [], []
    for pair in itertools.combinations(runs, 2):
        try:
            tests.append(paired_test_of(*pair))
        except VitdemoError as error:
            words.append(str(error))
    rows = []
    for found, p in zip(tests, holm([test.overall.p for test in tests]), strict=True):
        low, high = found.overall.interval
        rows.append(
            [
                f"{found.first}, {found.second}",
                points(found.overall.difference),
                f"{points(low)} to {points(high)}",
                f"{found.overall.first_only:,}",
                f"{found.overall.second_only:,}",
                p_words(p),
            ]
        )
        if len(tests) <= PAIRS:  # of more, the table says it shorter
            words.append(mcnemar_sentence(found.overall, found.first, found.second, p=float(p)))
    if not words and not rows:
        return ""
    header = ("Models", "Accuracy, points", "95 % interval", "Only the first", "Only the second")
    sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in words)
    rows_html = table((*header, "McNemar, Holm"), rows) if rows else ""
    return f"<h2>Two by two on the same test pictures</h2>{rows_html}<ul>{sentences}</ul>"


def ingredients_section(runs: Sequence[Run]) -> str:
    """What each ingredient bought, for each ablation among the runs; nothing without one."""
    by_name = {run.name: run for run in runs}
    return "".join(
        ablation_html(
            by_name[base], [by_name[n] for n in names if n != base and by_name[n].has_evaluation]
        )
        for base, names in ablations(runs).items()
    )


def ablation_html(base: Run, others: Sequence[Run]) -> str:
    title = f"<h2>What an ingredient buys: the ablation of {escape(base.name)}</h2>"
    try:
        found = ablation_of(base, others)
    except VitdemoError as error:
        return f"{title}<p>{escape(str(error))}</p>"
    tests, clear = [gain.test for gain in found.gains], [gain.is_clear for gain in found.gains]
    figure = charts.gain_plot([gain.words for gain in found.gains], tests, clear)
    rows = [[base.name, "", percent(found.accuracy), *[DASH] * 3]] + [
        [
            gain.run,
            gain.words,
            percent(gain.test.first_accuracy),
            points(gain.test.difference),
            " to ".join(map(points, gain.test.interval)),
            p_words(gain.p),
        ]
        for gain in found.gains
    ]
    label = f"Gain in test accuracy beside {base.name}, with its 95 % interval"
    header = ("Run", "What differs", "Test", "Gain, points", "95 % interval", "McNemar, Holm")
    return (
        f"{title}{''.join(f'<p>{escape(words)}</p>' for words in conclusion(found))}"
        f'<div class="plots"><figure aria-label="{escape(f"{label}; its numbers are below")}">'
        f"<figcaption>{escape(label)}</figcaption>{figures.svg(figure)}</figure>"
        f"</div>{table(header, rows)}"
    )


def test_section(run: Run) -> str:
    """Per-class metrics, confusion matrix, most confused pairs, calibration; or why not."""
    title = f"<h2>{escape(run.name)} on the test pictures</h2>"
    try:
        found, calibration = table_of(run), calibration_of(run)
    except VitdemoError as error:
        return f"{title}<p>{escape(str(error))}</p>"
    matrix = confusion(run.evaluation.probabilities, run.evaluation.labels)
    pairs = "".join(
        f"<li>{escape(pair_sentence(pair, run.classes))}</li>"
        for pair in most_confused(matrix, PAIRS)
    )
    top = "".join(
        f" {percent(top.share)} have their class among the {top.k} most probable."
        for top in found.top[1:]
    )
    return (
        f"{title}<p>{percent(found.accuracy)} of {int(found.support.sum()):,} pictures are named "
        f"rightly (95 % interval {percents(found.accuracy_interval)}).{top}</p>"
        f"{class_table(found)}"
        "<h3>Confusion matrix: a row for the true class, a column for the predicted class</h3>"
        + matrix_table(matrix, run.classes)
        + (f"<h3>Most confused pairs</h3><ol>{pairs}</ol>" if pairs else "")
        + calibration_section(calibration)
    )


test_section.__test__ = test_figures.__test__ = False  # no tests, whatever pytest makes of them


def class_table(found: ClassTable) -> str:
    """Every metric of each class and of both means, with the intervals that there are."""
    rows = [
        [
            name,
            f"{int(found.support[c]):,}",
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
        cells = (with_interval(means[column], intervals.get(column)) for column in COLUMNS)
        rows.append([title, "", *cells])
    return table(("Class", "Support", *TITLES.values()), rows)


def calibration_section(found: Calibration) -> str:
    """Whether the model is as often right as it is sure, in words and figures."""
    sides, words = (
        two_sides(found.before),
        (
            f"It is {percent(found.mean_confidence)} sure of its answers on average, and "
            f"{percent(found.accuracy)} of them are right. Its calibration error is "
            f"{percent(found.before.error)}; chance alone gives a perfectly calibrated model up to "
            f"{percent(found.chance.error)} on as many pictures. "
        ),
    )
    if sides:
        words += (
            "; ".join(
                f"the {side.count:,} answers {where} {percent(sides[1].low)} confidence are "
                f"{percent(side.confidence)} sure and {percent(side.accuracy)} right"
                for side, where in zip(sides, ("below", "above"), strict=True)
            ).capitalize()
            + ". "
        )
    scaled = found.scaled
    if scaled:
        words += (
            f"Divided by a temperature of {scaled.temperature:.3f}, fitted on "
            f"{scaled.validation_pictures:,} validation pictures, its scores have an error of "
            f"{percent(scaled.reliability.error)} on the test pictures."
        )
    else:
        words += "No temperature was fitted: the run holds no answers on validation pictures."
    before = found.before
    dashed = ", dashed with the temperature" if scaled else ""
    drawn = (
        (
            f"Reliability: right answers over confidence{dashed}; grey: what chance allows",
            charts.reliability_plot(before, found.chance.band, scaled and scaled.reliability),
        ),
        (
            "Confidence of right answers and (hatched) of wrong ones, each 100 % together",
            charts.confidence_plot(before.edges, before.right, before.wrong),
        ),
    )
    plots = "".join(
        f'<figure aria-label="{escape(f"{title}, of {found.run}")}">'
        f"<figcaption>{title}</figcaption>{figures.svg(figure)}</figure>"
        for title, figure in drawn
    )
    return f'<h3>Calibration</h3><p>{words}</p><div class="plots">{plots}</div>'


def matrix_table(matrix: np.ndarray, classes: Sequence[str]) -> str:
    """(C, C) counts; a cell is the darker the larger its share of the true class is."""
    shares = cells(matrix, "true")  # (C, C)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in classes)
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        + "".join(
            f'<td class="{"right" if i == j else "wrong"}" style="--share: '
            f'{100 * shares[i, j]:.0f}%">{matrix[i, j]:,}</td>'
            for j in range(len(classes))
        )
        + "</tr>"
        for i, name in enumerate(classes)
    )
    return (
        '<div class="scroll"><table class="matrix"><thead><tr><td></td>'
        f"{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def settings_table(runs: Sequence[Run]) -> str:
    """Every field of the recipes, a column a run; what differs between runs is marked.

    Without the recipes' notes: they tell of another training, often measured otherwise.
    """
    recipes = [flat({k: v for k, v in run.config["recipe"].items() if k != "note"}) for run in runs]
    rows = [
        [field, *(recipe.get(field, DASH) for recipe in recipes)]
        for field in dict.fromkeys(itertools.chain.from_iterable(recipes))
    ]
    differ = [i for i, (_, *values) in enumerate(rows) if len(set(values)) > 1]
    return table(("Field", *(run.name for run in runs)), rows, marked=differ, wide=True)


def flat(recipe: dict, prefix: str = "") -> dict[str, str]:
    """{"model": {"family": "vit"}} -> {"model.family": "vit"}; values as words, dicts in a list
    by their number from 1."""
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


def provenance_table(runs: Sequence[Run]) -> str:
    keys = ("command", "started", "device", "processes", "git_commit", "started_from", "resumed")
    keys += ("data", "split", "packages", "classes")
    described = [flat({k: run.config[k] for k in keys if k in run.config}) for run in runs]
    fields = dict.fromkeys(itertools.chain.from_iterable(described))
    rows = [[field, *(found.get(field, DASH) for found in described)] for field in fields]
    return table(("", *(run.name for run in runs)), rows, wide=True)


def table(
    header: Iterable[str],
    rows: Sequence[Sequence[str]],
    *,
    marked: Sequence[int] = (),
    wide: bool = False,
) -> str:
    """Rows of words, escaped here; rows `marked` are set apart, `wide` lets long cells wrap."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = "".join(
        f"<tr{' class=marked' if i in marked else ''}>"
        f'<th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(c)}</td>" for c in rest)}</tr>'
        for i, (first, *rest) in enumerate(rows)
    )
    return (
        f'<div class="scroll"><table{" class=words" if wide else ""}><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def percent(share: float) -> str:
    return DASH if math.isnan(share) else f"{100 * share:.2f} %"


def percents(interval: np.ndarray) -> str:
    return f"{100 * interval[0]:.2f} to {100 * interval[1]:.2f} %"


def points(share: float) -> str:
    return f"{100 * share:+.2f}".replace("-", "−")


def with_interval(value: float, interval: np.ndarray | None) -> str:
    if interval is None or np.isnan(interval).any():
        return three_decimals(value)
    return f"{three_decimals(value)} ({interval[0]:.3f} to {interval[1]:.3f})"


def scaled(value: float | None, unit: float, name: str) -> str:
    return f"{value / unit:.2f} {name}" if isinstance(value, (int, float)) else DASH
