"""Documents of headings, texts, tables, figures and images, used by most tabs.

A document is a list of blocks. A block is an instance of a class below, of `Table`, of `ImageRow`
or of `MapRow`. `documents.js` receives each block as a JSON object of its fields, in which
`"kind"` names the class. In `Text`, `Bullets` and the title of `ProbabilityChange`, **two stars**
mark bold text and `backticks` mark code.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vitdemo.page.components.maps import MapRow
from vitdemo.page.components.pictures import ImageRow
from vitdemo.page.components.table import Table

VALUE_DIGITS = 6  # significant digits of a number in an array: more than colours and tables show


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
    """Legend entry: a line in `colour` with the label `words`, or only the label."""

    words: str
    colour: str = ""
    dashed: bool = False


@dataclass(frozen=True)
class Legend:
    """Legend with `groups` of entries, title (may be empty) -> entries."""

    groups: Mapping[str, Sequence[LegendEntry]]


@dataclass(frozen=True)
class Figure:
    """Plot as `svg` text; `label` describes the plot to screen readers."""

    title: str
    label: str
    svg: str
    lines: Sequence[LegendEntry] = ()
    words: str = ""


@dataclass(frozen=True)
class Plots:
    """Figures side by side, wrapped to the available width."""

    figures: Sequence[Figure]


@dataclass(frozen=True)
class ProbabilityChange:
    """Card that compares class probabilities (0 to 1) before and after a change.

    Each row is (class, probability before, probability after). `heads` are the headings of the two
    columns of probabilities.
    """

    title: str
    rows: Sequence[tuple[str, float, float]]
    heads: tuple[str, str] = ("before", "now")


@dataclass(frozen=True)
class PickList:
    """Numbered list of buttons; `items` maps the name that `pick` receives to the label."""

    items: Mapping[str, str]


@dataclass(frozen=True)
class Download:
    """Button with the label `words` that saves `rows` as a CSV file; the rows are not drawn."""

    words: str
    file: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Details:
    """Blocks that are hidden until the user clicks their `title`."""

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
    | ProbabilityChange
    | PickList
    | Download
    | Details
    | ImageRow
    | MapRow
    | Table
)


def blocks_to_json(value, serve: Callable[[np.ndarray], object]):
    """Convert blocks to JSON objects without empty fields; NaN becomes None.

    An image (height, width, 3) uint8 becomes the result of `serve`.
    """
    if dataclasses.is_dataclass(value):
        fields = {
            f.name: blocks_to_json(getattr(value, f.name), serve) for f in dataclasses.fields(value)
        }
        said = {n: v for n, v in fields.items() if v is not None and v is not False and v != ""}
        return {"kind": type(value).__name__, **said}
    if isinstance(value, Mapping):
        return [[name, blocks_to_json(each, serve)] for name, each in value.items()]
    if isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 3:
        return serve(value)
    if isinstance(value, (list, tuple, np.ndarray)):
        return [blocks_to_json(each, serve) for each in value]
    if isinstance(value, np.floating):
        return float(f"{value:.{VALUE_DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value
