"""A table that the browser draws, sorts, copies as Markdown and saves as CSV: see `table.js`.

    Table(["Model", "Accuracy, %"], [["vit", "96.2"], ["resnet18", "95.1"]], file="models")

It is a piece of an `Article`. A cell is its text, or a `Cell` where there is more to it. The first
cell of a row names the row.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """`numeric` columns stand right and sort by number; `help` explains it below the table;
    a `hidden` one is in what is saved alone."""

    label: str
    help: str = ""
    numeric: bool = True
    hidden: bool = False


@dataclass(frozen=True)
class Cell:
    """`text`, and what is drawn and exported with it.

    `value` is what sorting and the CSV take in place of the number in the text; `interval`
    (2,) is in the CSV, and over the `bar` (a share, 0 to 1) drawn; `note` stands small below.
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
    """`rows` of as many cells as `columns`; `feet` stay below them whatever they are sorted by.

    `file` is the stem of the file names it is saved under; without it nothing is offered to save.
    `words` explain terms beside those of the columns; `tall` scrolls it in a low box. The rows
    `folded`, which count from 0, are drawn when a button asks for them, named by `folded_words`;
    what is saved has all rows.
    """

    columns: Sequence[str | Column]
    rows: Sequence[Row]
    feet: Sequence[Row] = ()
    file: str = ""
    words: dict[str, str] | None = None
    tall: bool = False
    folded: Sequence[int] = ()
    folded_words: str = ""
