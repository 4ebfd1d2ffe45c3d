"""Table that is drawn, sorted and exported (Markdown, CSV) in the browser: see `table.js`.

    Table(["Model", "Accuracy, %"], [["vit", "96.2"], ["resnet18", "95.1"]], file="models")

It is a piece of an `Document`. A cell is a text, or a `Cell` with more properties. The first cell
of a row is its heading.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """A column: `numeric` ones are right-aligned and sorted by number.

    `help` is shown below the table. A `hidden` column is only in exports.
    """

    label: str
    help: str = ""
    numeric: bool = True
    hidden: bool = False


@dataclass(frozen=True)
class Cell:
    """A cell with `text`.

    Sorting and the CSV use `value`, if given, instead of the number in the text. `bar` (0 to 1) is
    drawn as a bar, with the `interval` (low, high) over it, which is also in the CSV. `note` is a
    small text below.
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
    """A table; each of its `rows` has one cell per column, and `feet` are rows that stay below.

    `file` is the stem of the exported files; without it there are no export buttons. `words` are
    further terms to explain. A `tall` table scrolls in a box of limited height. The rows with the
    indices `folded` are hidden until a button labelled with `folded_words` is pressed; exports
    contain all rows.
    """

    columns: Sequence[str | Column]
    rows: Sequence[Row]
    feet: Sequence[Row] = ()
    file: str = ""
    words: dict[str, str] | None = None
    tall: bool = False
    folded: Sequence[int] = ()
    folded_words: str = ""
