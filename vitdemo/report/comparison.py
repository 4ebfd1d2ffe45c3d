"""Paired tests of two models on the same test images, for the page and the report."""

import itertools
from collections.abc import Sequence

from vitdemo.documents import Bullets, Details, DocumentBlock, Heading, Notice, Text
from vitdemo.documents.table import Cell, Column, Row, Table
from vitdemo.errors import VitdemoError
from vitdemo.metrics import DASH, format_signed, format_signed_range, percent_text
from vitdemo.metrics.classification_report import ClassificationReport, PairedTest, compare_runs
from vitdemo.metrics.intervals import independent_difference_interval
from vitdemo.metrics.paired import (
    SIGNIFICANCE_THRESHOLD,
    McNemarResult,
    describe_mcnemar,
    format_p_value,
    holm,
)
from vitdemo.runs import Run
from vitdemo.test_sets.evaluation import AccuracyComparison

MAX_SENTENCES = 5  # with more pairs of runs, there is only a table
DIFFERENCE_HELP = (
    "Accuracy of the first model minus accuracy of the second, in percentage points, with a 95% "
    "confidence interval (Agresti & Min 2005). For one class, the accuracy is its recall. The "
    "interval is not corrected for several comparisons, but p is. Use p to decide whether the "
    "difference is significant."
)
INDEPENDENT_HELP = (
    "Value on this test set minus value on the original test set, in percentage points, with a "
    "95% confidence interval for different images (Newcombe 1998). If the interval contains 0, "
    "the difference may be due to chance. The intervals are not corrected for several comparisons."
)
SAME_CLASSES_HELP = (
    "Accuracy on the original test images of the same classes. Each class has the same weight as "
    "in your test set."
)
ONE_CORRECT_HELP = (
    "Images that only one of the two models classifies correctly. Images on which both are "
    "correct or both are incorrect do not show which model is better."
)
P_VALUE_HELP = (
    "Probability of at least this difference between the two image counts if both models are "
    "equally good. Exact McNemar test with Holm's correction. If it is below "
    f"{SIGNIFICANCE_THRESHOLD:g}, the difference is significant on these test images."
)


def paired_test_blocks(test: PairedTest) -> list[DocumentBlock]:
    """Return the paired test over all images, and a table of the paired tests per class."""
    columns = list_columns("Class", f"Only {test.first}", f"Only {test.second}")
    names = test.first, test.second
    rows = [
        [name, *list_cells(*names, test.by_class[c], float(test.adjusted[c]))]
        for c, name in enumerate(test.classes)
    ]
    table = Table(columns, rows, file=f"{test.first}-against-{test.second}")
    sentences = Bullets([test.sentence(c) for c in range(len(test.classes))])
    return [
        Heading(f"{test.first} and {test.second} on the same images"),
        Text(
            f"**{test.sentence()}** The accuracies differ by "
            f"{format_signed(100 * test.overall.difference)} percentage points "
            f"(95% interval {format_signed_range(*100 * test.overall.interval)})."
        ),
        Details("Paired test of each class", [table, sentences]),
    ]


def independent_test_blocks(
    first: ClassificationReport,
    second: ClassificationReport,
    comparison: AccuracyComparison,
    name: str,
) -> list[DocumentBlock]:
    """Compare one model on two test sets: accuracy, and a table of the recall of each class.

    `first` is the report for the test set `name`, `second` is the report for the original test set,
    and `comparison` compares the two accuracies.
    """
    columns = [
        "Class",
        Column(f"Recall on {name}"),
        Column("Images"),
        Column("Recall on original test set"),
        Column("Images"),
        Column("Difference, points", INDEPENDENT_HELP),
        Column("95% interval"),
    ]
    rows = [
        [class_name, *_list_recall_cells(first, second, c)]
        for c, class_name in enumerate(first.classes)
        if first.support[c]
    ]
    return [
        Heading(f"{first.run} on {name} and on the original test set"),
        Text(_describe_accuracies(comparison, name)),
        Details("Recall of each class", [Table(columns, rows, file=f"{first.run}-test-sets")]),
    ]


def _describe_accuracies(comparison: AccuracyComparison, name: str) -> str:
    own = (
        f"The accuracy is {100 * comparison.accuracy:.1f}% on {name} ({comparison.count:,} images)"
    )
    if comparison.own_accuracy is None:
        return f"{own}. The original test set does not have all these classes."
    difference = 100 * (comparison.accuracy - comparison.own_accuracy)
    ends = (100 * bound for bound in comparison.difference_interval)
    return (
        f"{own} and {100 * comparison.own_accuracy:.1f}% on the original test images of the same "
        f"classes ({comparison.own_count:,} images, with the class proportions of {name}). The "
        f"difference is **{format_signed(difference)} percentage points** (95% interval "
        f"{format_signed_range(*ends)})."
    )


def _list_recall_cells(first: ClassificationReport, second: ClassificationReport, c: int) -> Row:
    recalls = [float(each.columns["recall"][c]) for each in (first, second)]
    counts = [int(each.support[c]) for each in (first, second)]
    cells = []
    for recall, n in zip(recalls, counts, strict=True):
        cells += [Cell(percent_text(recall), recall), f"{n:,}"]
    if not all(counts):
        return [*cells, DASH, DASH]
    hits = [round(recall * n) for recall, n in zip(recalls, counts, strict=True)]
    interval = independent_difference_interval(hits[0], counts[0], hits[1], counts[1])
    return [*cells, *_list_difference_cells(recalls[0] - recalls[1], interval)]


def _list_difference_cells(difference: float, interval: Sequence[float]) -> list[Cell]:
    """Return cells with a difference of accuracies and its interval, in percentage points."""
    difference, low, high = (100 * value for value in (difference, *interval))
    return [
        Cell(format_signed(difference), difference),
        Cell(format_signed_range(low, high), interval=(low, high)),
    ]


def test_set_blocks(comparisons: Sequence[AccuracyComparison], name: str) -> list[DocumentBlock]:
    """Return a table of all models' accuracies on the test set `name` and the original test set."""
    if not comparisons:
        return []
    columns = [
        "Model",
        Column(f"Accuracy on {name}, %"),
        Column("Accuracy on original test set, same classes, %", SAME_CLASSES_HELP),
        Column("Difference, points", INDEPENDENT_HELP),
        Column("95% interval"),
    ]
    return [
        Table(
            columns, [_list_accuracy_cells(each) for each in comparisons], file=f"{name}-accuracy"
        )
    ]


def _list_accuracy_cells(comparison: AccuracyComparison) -> Row:
    def accuracy_cell(value: float, interval: tuple[float, float]) -> Cell:
        low, high = (100 * bound for bound in interval)
        return Cell(f"{100 * value:.1f}", value, interval, note=f"{low:.1f} to {high:.1f}")

    first = accuracy_cell(comparison.accuracy, comparison.interval)
    if comparison.own_accuracy is None:
        return [comparison.run.name, first, DASH, DASH, DASH]
    return [
        comparison.run.name,
        first,
        accuracy_cell(comparison.own_accuracy, comparison.own_interval),
        *_list_difference_cells(
            comparison.accuracy - comparison.own_accuracy, comparison.difference_interval
        ),
    ]


def comparison_blocks(runs: Sequence[Run]) -> list[DocumentBlock]:
    """Compare every two runs: a table and, for at most `MAX_SENTENCES` pairs, sentences.

    A notice reports each pair that cannot be compared.
    """
    tests, problems = [], []
    for pair in itertools.combinations(runs, 2):
        try:
            tests.append(compare_runs(*pair))
        except VitdemoError as error:
            problems.append(Notice(str(error)))
    if not tests:
        return problems
    p_values = holm([test.overall.p for test in tests])
    rows, sentences = [], []
    for test, p in zip(tests, map(float, p_values), strict=True):
        names = test.first, test.second
        rows.append([", ".join(names), *list_cells(*names, test.overall, p)])
        sentences.append(describe_mcnemar(test.overall, *names, p=p))
    table = Table(list_columns("Models", "Only first", "Only second"), rows)
    told = [Bullets(sentences)] if len(tests) <= MAX_SENTENCES else []
    return [table, *told, *problems]


def list_columns(first: str, only_first: str, only_second: str) -> list[str | Column]:
    """Return the columns of a table of paired tests, with the given titles."""
    return [
        first,
        Column("Images"),
        Column("Difference, points", DIFFERENCE_HELP),
        Column("95% interval"),
        Column(only_first, ONE_CORRECT_HELP),
        Column(only_second),
        Column("p (Holm)", P_VALUE_HELP),
        Column("Better", numeric=False),
    ]


def describe_insignificance(test: McNemarResult) -> str:
    """Explain a verdict: the test may have been significant before the correction."""
    corrected = test.p < SIGNIFICANCE_THRESHOLD
    return "not significant after correction" if corrected else "not significant"


def list_cells(first: str, second: str, test: McNemarResult, p: float) -> Row:
    """Return the cells of the models `first` and `second`; `p` is the corrected p-value."""
    if not test.n:
        return ["0", *[DASH] * 6]
    better = first if test.first_only > test.second_only else second
    return [
        f"{test.n:,}",
        *_list_difference_cells(test.difference, test.interval),
        f"{test.first_only:,}",
        f"{test.second_only:,}",
        Cell(format_p_value(p), p),
        better if p < SIGNIFICANCE_THRESHOLD else describe_insignificance(test),
    ]
