"""Paired test of two models, class by class, as a document."""

from vitdemo.context import AppContext
from vitdemo.errors import VitdemoError
from vitdemo.metrics import DASH, format_signed
from vitdemo.metrics.classification_report import (
    PairedTest,
    compare_runs,
    compute_classification_report,
)
from vitdemo.metrics.paired import SIGNIFICANCE_THRESHOLD, McNemarResult, format_p_value
from vitdemo.page.bridge import ViewState, document_payload
from vitdemo.page.components.article import Bullets, Details, DocumentBlock, Heading, Text
from vitdemo.page.components.table import Cell, Column, Row, Table
from vitdemo.page.results.models import choose_models

VIEW = "paired_test"
DIFFERENCE_HELP = (
    "Recall of the first model minus recall of the second, in percentage points, with a 95% "
    "confidence interval (Agresti & Min 2005). Use p, not the interval, to decide whether the "
    "difference is significant."
)
ONE_CORRECT_HELP = (
    "Images that only one of the two models classifies correctly. Images on which both are "
    "correct or both are incorrect do not show which model is better."
)
P_VALUE_HELP = (
    "Probability of a split at least as uneven if both models were equally good (exact McNemar "
    "test). Holm's correction limits the probability of a false alarm in the {count} comparisons "
    "of this section to 5%."
)


def payload(context: AppContext, state: ViewState) -> list:
    """Return the document of the paired test; empty without a second model.

    Raises `VitdemoError` if the two models cannot be compared.
    """
    name, other = choose_models(context, state)
    if not name or not other:
        return []
    run = context.find_run(name)
    try:
        context.cache.call(compute_classification_report, run)
    except VitdemoError:  # reported by the view of the class metrics
        return []
    test = context.cache.call(compare_runs, run, context.find_run(other))
    return document_payload(paired_test_blocks(test))


def paired_test_blocks(found: PairedTest) -> list[DocumentBlock]:
    """Return the paired test over all images, and a table of the paired tests per class."""
    low, high = 100 * found.overall.interval
    columns = [
        "Class",
        Column("Images"),
        Column("Difference, points", DIFFERENCE_HELP),
        Column("95% interval"),
        Column(f"Only {found.first}", ONE_CORRECT_HELP),
        Column(f"Only {found.second}"),
        Column("p (Holm)", P_VALUE_HELP.format(count=found.comparisons)),
        Column("Better", numeric=False),
    ]
    classes = range(len(found.classes))
    table = Table(
        columns,
        [paired_test_row(found, c) for c in classes],
        file=f"{found.first}-against-{found.second}",
    )
    sentences = Bullets([found.sentence(c) for c in classes])
    return [
        Heading(f"{found.first} and {found.second} on the same images"),
        Text(
            f"**{found.sentence()}** The accuracies differ by "
            f"{format_signed(100 * found.overall.difference)} percentage points "
            f"(95% interval {format_signed(low)} to {format_signed(high)})."
        ),
        Details("Paired test of each class", [table, sentences]),
    ]


def paired_test_row(found: PairedTest, c: int) -> Row:
    test, name = found.by_class[c], found.classes[c]
    if not test.n:
        return [name, "0", *[DASH] * 6]
    p, (low, high) = float(found.adjusted[c]), 100 * test.interval
    difference = 100 * test.difference
    return [
        name,
        f"{test.n:,}",
        Cell(format_signed(difference), difference),
        Cell(f"{format_signed(low)} to {format_signed(high)}", interval=(low, high)),
        f"{test.first_only:,}",
        f"{test.second_only:,}",
        Cell(format_p_value(p).removeprefix("p = ").removeprefix("p "), p),
        name_better_model(found, test, p),
    ]


def name_better_model(found: PairedTest, test: McNemarResult, p: float) -> str:
    if p >= SIGNIFICANCE_THRESHOLD:
        return "not significant"
    return found.first if test.first_only > test.second_only else found.second
