"""Documents of headings, texts, tables, figures and images, for the page and for files.

A document is a list of blocks. A block is an instance of a class below, of `Table`, of `ImageRow`
or of `MapRow`. The same blocks are drawn by `documents.js` of the page (see `payload.py`), and
written to the report and to handouts (see `html.py`). In `Text` and `Bullets`, **two stars** mark
bold text and `backticks` mark code.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vitdemo.documents.images import ImageRow
from vitdemo.documents.maps import MapRow
from vitdemo.documents.table import Table


@dataclass(frozen=True)
class Heading:
    """Heading of a section."""

    text: str


@dataclass(frozen=True)
class Text:
    """Paragraph; `quiet` makes it small, and `told` announces it to screen readers."""

    text: str
    quiet: bool = False
    told: bool = False


@dataclass(frozen=True)
class Notice:
    """A highlighted message, announced to screen readers."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A bulleted list of texts."""

    items: Sequence[str]


@dataclass(frozen=True)
class LegendEntry:
    """Legend entry: a line in `colour` with a `label`, or only the label."""

    label: str
    colour: str = ""
    dashed: bool = False


@dataclass(frozen=True)
class Legend:
    """Legend whose entries are in `groups`: title (may be empty) -> entries."""

    groups: Mapping[str, Sequence[LegendEntry]]


@dataclass(frozen=True)
class Figure:
    """Plot as `svg` text; `label` describes the plot to screen readers."""

    title: str
    label: str
    svg: str
    lines: Sequence[LegendEntry] = ()
    caption: str = ""


@dataclass(frozen=True)
class Plots:
    """Figures side by side, wrapped to the available width."""

    figures: Sequence[Figure]


@dataclass(frozen=True)
class PickList:
    """Numbered list of buttons; `items` maps the name that `pick` receives to the label."""

    items: Mapping[str, str]


@dataclass(frozen=True)
class Download:
    """Rows that the page's menu Export saves as a CSV file with the name `label`; not drawn."""

    label: str
    file: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Details:
    """Blocks that the page hides until the user clicks the `title`; files always show them."""

    title: str
    pieces: "Sequence[DocumentBlock]"


@dataclass(frozen=True)
class Section:
    """Chapter of a file: a title and blocks, whose headings are one level lower."""

    title: str
    pieces: "Sequence[DocumentBlock]"


DocumentBlock = (
    Heading
    | Text
    | Notice
    | Bullets
    | Legend
    | Figure
    | Plots
    | PickList
    | Download
    | Details
    | Section
    | ImageRow
    | MapRow
    | Table
)
