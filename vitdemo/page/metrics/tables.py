"""The tables of the Per-class metrics tab: one model's, and two models' beside each other."""

import math
from collections.abc import Callable
from statistics import median

import numpy as np

from vitdemo.errors import VitdemoError
from vitdemo.explorer.metrics import COLUMNS, TITLES, ClassTable, PairedTest, three_decimals
from vitdemo.metrics.intervals import share_doubt
from vitdemo.metrics.paired import SIGNIFICANT, McNemar, p_words
from vitdemo.page import html

WORDS = {
    "Support": "How many test pictures of the class there are.",
    "Precision": "Of all pictures predicted to be cats, the share that are cats.",
    "Recall": "True positive rate: of all cats, the share predicted to be cats.",
    "F1": "Precision and recall in one (their harmonic mean), and low if either is.",
    "Average precision": "Precision, averaged over all thresholds of the probability of cat; the "
    "area under the precision-recall curve. Its interval stands with the curves below.",
    "ROC-AUC": "How often a cat gets a higher probability of cat than another picture does: 0.5 by "
    "chance, 1 at best. Its interval stands with the curves below.",
    "Macro average": "The mean over the classes: every class counts the same.",
    "Weighted average": "The mean over the pictures: a class counts as often as it has some.",
}


TOP_WORDS = {2: "two", 3: "three", 5: "five"}


def metrics_html(table: ClassTable, worst_first: bool) -> str:
    """Accuracy and top-k in sentences, the table with its bars and means, the numbers as CSV."""
    rows = table.worst_first if worst_first else range(len(table.classes))
    titles = ("Support", *(TITLES[name] for name in COLUMNS))
    head = "".join(f'<th scope="col">{title}</th>' for title in titles)
    body = "".join(class_row(table, c) for c in rows)
    feet = mean_row("Macro average", table.macro, table.macro_intervals)
    feet += mean_row("Weighted average", table.weighted, table.weighted_intervals)
    return (
        f"{accuracy_words(table)}"
        f'<div class="vd-scroll"><table class="vd-table"><thead><tr><th scope="col">Class</th>'
        f"{head}</tr></thead><tbody>{body}</tbody><tfoot>{feet}</tfoot></table></div>"
        f"{explanations(WORDS)}<p>{csv_of(table, rows)}</p>"
    )


def accuracy_words(table: ClassTable) -> str:
    """How many are right, how far that can be trusted, and how many are nearly right."""
    low, high = table.accuracy_interval
    sentence = (
        f"<p><strong>{100 * table.accuracy:.2f} %</strong> of {int(table.support.sum()):,} test "
        f"pictures are classified correctly by {html.escape(table.run)} "
        f"(95 % interval {100 * low:.2f} to {100 * high:.2f} %). "
    )
    return f"{sentence}{point_words(table)}</p>{top_words(table)}"


def top_words(table: ClassTable) -> str:
    """Top-k accuracy for the k there are."""
    shares = [
        f"the {TOP_WORDS[top.k]} most probable in <strong>{100 * top.share:.1f} %</strong> "
        f"({100 * top.interval[0]:.1f} to {100 * top.interval[1]:.1f} %)"
        for top in table.top[1:]
    ]
    if not shares:
        return ""
    return f"<p>Top-k accuracy: the true class is among {', '.join(shares)}.</p>"


def point_words(table: ClassTable) -> str:
    """Whether one point of accuracy, and of a class's recall, means something."""
    n = int(table.support.sum())
    whole = 100 * share_doubt(round(table.accuracy * n), n)
    shares = zip(table.columns["recall"], map(int, table.support), strict=True)
    single = 100 * median(share_doubt(round(recall * n), n) for recall, n in shares if n)
    verdict = "1 point more or less says something" if whole < 1 else "1 point says nothing"
    other = "there 1 point says nothing" if single >= 1 else "there too 1 point says something"
    return (
        f"The accuracy is known to about ±{whole:.1f} points: {verdict}. The recall of one class "
        f"is known to about ±{single:.1f} points: {other}."
    )


def class_row(table: ClassTable, c: int) -> str:
    cells = "".join(
        f"<td>{bar(table.columns[name][c], table.interval(name, c))}</td>" for name in COLUMNS
    )
    support = f"<td>{int(table.support[c]):,}</td>"
    return f'<tr><th scope="row">{html.escape(table.classes[c])}</th>{support}{cells}</tr>'


def mean_row(title: str, means: dict[str, float], intervals: dict[str, np.ndarray]) -> str:
    cells = "".join(
        f"<td><b>{three_decimals(means[name])}</b>{small_span(intervals.get(name))}</td>"
        for name in COLUMNS
    )
    return f'<tr><th scope="row">{title}</th><td></td>{cells}</tr>'


def bar(value: float, interval: np.ndarray | None = None) -> str:
    """A bar from 0 to the value, with its interval as a line over the bar's end and in numbers."""
    width = 0.0 if math.isnan(value) else 100 * value
    line = ""
    if interval is not None and not np.isnan(interval).any():
        left, right = 100 * interval
        line = f'<u style="left: {left:.1f}%; width: {max(right - left, 0.5):.1f}%"></u>'
    return (
        f'<div class="vd-bar"><span class="vd-track"><i style="width: {width:.1f}%"></i>{line}'
        f"</span><b>{three_decimals(value)}</b></div>{small_span(interval)}"
    )


def small_span(interval: np.ndarray | None) -> str:
    if interval is None or np.isnan(interval).any():
        return ""
    return f'<small class="vd-quiet">{interval[0]:.3f} to {interval[1]:.3f}</small>'


def explanations(words: dict[str, str]) -> str:
    """What each number says, one sentence each, folded away."""
    items = "".join(
        f"<dt>{html.escape(title)}</dt><dd>{html.escape(text)}</dd>"
        for title, text in words.items()
    )
    return (
        '<details class="vd-numbers vd-words"><summary>What the numbers mean</summary>'
        f"<dl>{items}</dl></details>"
    )


def csv_of(table: ClassTable, rows: list[int] | range) -> str:
    """All figures of the classes and of both means, with their intervals, as a link."""
    header = ["class", "support", *COLUMNS]
    spans = [name for name in COLUMNS if name in table.intervals]
    header += [f"{name}_{end}" for name in spans for end in ("low", "high")]
    lines = [
        [table.classes[c], int(table.support[c])]
        + [f"{table.columns[name][c]:.6f}" for name in COLUMNS]
        + [f"{table.intervals[name][end, c]:.6f}" for name in spans for end in (0, 1)]
        for c in rows
    ]
    for title, means, intervals in (
        ("macro average", table.macro, table.macro_intervals),
        ("weighted average", table.weighted, table.weighted_intervals),
    ):
        line = [title, int(table.support.sum()), *(f"{means[name]:.6f}" for name in COLUMNS)]
        lines.append(line + [f"{intervals[name][end]:.6f}" for name in spans for end in (0, 1)])
    return html.csv_link(header, lines, f"{table.run}-per-class.csv")


# --- two models ----------------------------------------------------------------------------------

PAIRED_WORDS = {
    "Difference": "Recall of the first model less that of the second, in percentage points, with "
    "its 95 % interval, for which half a picture is added to each outcome (Agresti & Min 2005): "
    "it says how large the difference may be. Whether there is one, p says.",
    "Only the first / only the second": "Pictures that one of the two alone classifies correctly; "
    "those on which both agree say nothing of which is better.",
    "p": "If neither were better, the chance of a split at least as uneven (McNemar's test, "
    "exact), raised by Holm's correction for the {count} comparisons that are shown here together, "
    "the one over all pictures among them: all verdicts together raise a false alarm 1 time in 20 "
    "at most. What was looked at before, of other models, is not counted.",
}


def paired_html(paired_test: Callable[[str, str], PairedTest], first: str, second: str) -> str:
    """Both models on the same pictures: all of them in a sentence, then class by class."""
    try:
        found = paired_test(first, second)
    except VitdemoError as error:
        return html.notice(str(error))
    names = f"{html.escape(first)} and {html.escape(second)}"
    words = PAIRED_WORDS | {"p": PAIRED_WORDS["p"].format(count=found.comparisons)}
    low, high = 100 * found.overall.interval
    summary = (
        f"<p><strong>{html.escape(found.sentence())}</strong> The accuracies differ by "
        f"{signed(100 * found.overall.difference)} points "
        f"(95 % interval {signed(low)} to {signed(high)}).</p>"
    )
    sentences = "".join(
        f"<li>{html.escape(found.sentence(c))}</li>" for c in range(len(found.classes))
    )
    return (
        f"<h2>{names} on the same pictures</h2>{summary}{paired_table(found)}"
        f"<ul>{sentences}</ul>{explanations(words)}<p>{paired_csv(found)}</p>"
    )


def paired_table(found: PairedTest) -> str:
    header = (
        "Class",
        "Difference, points",
        "95 % interval",
        f"Only {found.first}",
        f"Only {found.second}",
        "p (Holm)",
        "Better",
    )
    return html.table(header, [paired_row(found, c) for c in range(len(found.classes))])


def paired_row(found: PairedTest, c: int) -> tuple[str, ...]:
    test = found.by_class[c]
    if not test.n:
        return (found.classes[c], *["–"] * 6)
    p, (low, high) = float(found.adjusted[c]), 100 * test.interval
    return (
        found.classes[c],
        signed(100 * test.difference),
        f"{signed(low)} to {signed(high)}",
        f"{test.first_only:,}",
        f"{test.second_only:,}",
        p_words(p).removeprefix("p = ").removeprefix("p "),
        better(found, test, p),
    )


def better(found: PairedTest, test: McNemar, p: float) -> str:
    if p >= SIGNIFICANT:
        return "could be chance"
    return found.first if test.first_only > test.second_only else found.second


def signed(points: float) -> str:
    """ "+1.3", "−0.4", "0.0": a minus as wide as the plus."""
    text = f"{points:+.1f}".replace("-", "−")
    return "0.0" if text in ("+0.0", "−0.0") else text


def paired_csv(found: PairedTest) -> str:
    header = (
        "class",
        "pictures",
        "only_first",
        "only_second",
        "difference",
        "low",
        "high",
        "p_holm",
    )
    rows = [
        (
            name,
            test.n,
            test.first_only,
            test.second_only,
            *(f"{value:.6f}" for value in (test.difference, *test.interval)),
            f"{found.adjusted[c]:.6g}",
        )
        for c, (name, test) in enumerate(zip(found.classes, found.by_class, strict=True))
    ]
    return html.csv_link(header, rows, f"{found.first}-against-{found.second}.csv")
