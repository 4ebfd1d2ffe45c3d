"""Table that `table.js` draws, sorts and exports as Markdown or CSV.

    Table(["Model", "Accuracy, %"], [["vit", "96.2"], ["resnet18", "95.1"]], file="models")

A `Table` is a block of a document. Each cell is a text, or a `Cell` with more properties. The first
cell of a row is the row's heading.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """Table column; if `numeric`, it is right-aligned and sorted by number.

    The page shows `help` below the table. Only exports contain a `hidden` column.
    """

    label: str
    help: str = ""
    numeric: bool = True
    hidden: bool = False


@dataclass(frozen=True)
class Cell:
    """Table cell with `text`, and optionally a bar, an interval and a note.

    Sorting and the CSV use `value`, if given, instead of the number in `text`. `bar` is the length
    of the bar, 0 to 1. `interval` (low, high) is drawn over the bar and written to the CSV. `note`
    is a small text below `text`.
    """

    text: str
    value: float | None = None
    interval: Sequence[float] | None = None
    bar: float | None = None
    note: str = ""
    strong: bool = False


Row = Sequence[str | Cell]


@dataclass(frozen=True)
class Table:
    """Table whose `rows` have one cell per column; `feet` are rows that stay last when sorting.

    `file` is the stem of the exported files; "" means no export buttons. `terms` maps further terms
    to explanations. A `tall` table scrolls in a box of limited height. Rows with an index in
    `folded` are hidden until the user presses a button with the label `folded_label`. Exports
    contain all rows.
    """

    columns: Sequence[str | Column]
    rows: Sequence[Row]
    feet: Sequence[Row] = ()
    file: str = ""
    terms: dict[str, str] | None = None
    tall: bool = False
    folded: Sequence[int] = ()
    folded_label: str = ""
