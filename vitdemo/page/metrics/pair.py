"""Paired test of two models in the Per-class metrics tab, class by class."""

from vitdemo.metrics import DASH, signed
from vitdemo.metrics.paired import SIGNIFICANT, McNemar, p_words
from vitdemo.metrics.tested_runs import PairedTest
from vitdemo.page.components.article import Bullets, Heading, Piece, Text
from vitdemo.page.components.table import Cell, Column, Row, Table

DIFFERENCE = (
    "Recall of the first model minus recall of the second, in percentage points. The 95% interval "
    "(Agresti & Min 2005) shows how large the difference may be. Use p to decide whether it is "
    "significant."
)
ALONE = (
    "Images that only one of the two models classifies correctly. Images on which both are "
    "correct or both are incorrect do not show which model is better."
)
P = (
    "Probability of a split at least as uneven if both models were equally good (exact McNemar "
    "test). Holm's correction covers the {count} comparisons in this section, including the one "
    "over all images: the probability of any false alarm is at most 5%. Comparisons of other "
    "models are not included in the correction."
)


def pair_pieces(found: PairedTest) -> list[Piece]:
    """Return the test over all images, then a table and a sentence for each class."""
    low, high = 100 * found.overall.interval
    columns = [
        "Class",
        Column("Images"),
        Column("Difference, points", DIFFERENCE),
        Column("95% interval"),
        Column(f"Only {found.first}", ALONE),
        Column(f"Only {found.second}"),
        Column("p (Holm)", P.format(count=found.comparisons)),
        Column("Better", numeric=False),
    ]
    classes = range(len(found.classes))
    return [
        Heading(f"{found.first} and {found.second} on the same images"),
        Text(
            f"**{found.sentence()}** The accuracies differ by "
            f"{signed(100 * found.overall.difference)} percentage points "
            f"(95% interval {signed(low)} to {signed(high)})."
        ),
        Table(
            columns,
            [pair_row(found, c) for c in classes],
            file=f"{found.first}-against-{found.second}",
        ),
        Bullets([found.sentence(c) for c in classes]),
    ]


def pair_row(found: PairedTest, c: int) -> Row:
    test, name = found.by_class[c], found.classes[c]
    if not test.n:
        return [name, "0", *[DASH] * 6]
    p, (low, high) = float(found.adjusted[c]), 100 * test.interval
    difference = 100 * test.difference
    return [
        name,
        f"{test.n:,}",
        Cell(signed(difference), difference),
        Cell(f"{signed(low)} to {signed(high)}", interval=(low, high)),
        f"{test.first_only:,}",
        f"{test.second_only:,}",
        Cell(p_words(p).removeprefix("p = ").removeprefix("p "), p),
        better(found, test, p),
    ]


def better(found: PairedTest, test: McNemar, p: float) -> str:
    if p >= SIGNIFICANT:
        return "not significant"
    return found.first if test.first_only > test.second_only else found.second
