"""What the Per-class metrics tab says of two models on the same pictures, class by class."""

from vitdemo.metrics import DASH, signed
from vitdemo.metrics.paired import SIGNIFICANT, McNemar, p_words
from vitdemo.metrics.tested_runs import PairedTest
from vitdemo.page.components.article import Bullets, Heading, Piece, Text
from vitdemo.page.components.table import Cell, Column, Row, Table

DIFFERENCE = (
    "Recall of the first model less that of the second, in percentage points, with its 95% "
    "interval, for which half a picture is added to each outcome (Agresti & Min 2005): it says how "
    "large the difference may be. Whether there is one, p says."
)
ALONE = (
    "Pictures that one of the two alone classifies correctly; those on which both agree say "
    "nothing of which is better."
)
P = (
    "If neither were better, the chance of a split at least as uneven (McNemar's test, exact), "
    "raised by Holm's correction for the {count} comparisons that are shown here together, the one "
    "over all pictures among them: all verdicts together raise a false alarm 1 time in 20 at most. "
    "What was looked at before, of other models, is not counted."
)


def pair_pieces(found: PairedTest) -> list[Piece]:
    """All pictures in a sentence, then a table and a sentence for each class."""
    low, high = 100 * found.overall.interval
    columns = [
        "Class",
        Column("Pictures"),
        Column("Difference, points", DIFFERENCE),
        Column("95% interval"),
        Column(f"Only {found.first}", ALONE),
        Column(f"Only {found.second}"),
        Column("p (Holm)", P.format(count=found.comparisons)),
        Column("Better", numeric=False),
    ]
    classes = range(len(found.classes))
    return [
        Heading(f"{found.first} and {found.second} on the same pictures"),
        Text(
            f"**{found.sentence()}** The accuracies differ by "
            f"{signed(100 * found.overall.difference)} points "
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
        return "could be chance"
    return found.first if test.first_only > test.second_only else found.second
