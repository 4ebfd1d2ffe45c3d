"""Document of headings, texts, tables, figures and images, used by most tabs.

    view = Article(elem_id="calibration")
    view.pick(handler, ...)       # a button was pressed; handler(event: gr.EventData): event.pick

A handler returns a message, or a list of pieces: the classes below, `Table` and `Pictures`. The
script receives the same list, each piece as a JSON object of its fields with `"kind"`, the name of
its class. In `Text`, `Bullets` and the title of `Moved`, **two stars** mark bold text and
`backticks` mark code.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vitdemo.page.components import Drawing, served_picture
from vitdemo.page.components.pictures import Pictures
from vitdemo.page.components.table import Table


@dataclass(frozen=True)
class Heading:
    text: str


@dataclass(frozen=True)
class Text:
    """A paragraph; `quiet` makes it small, and `told` announces it to screen readers."""

    text: str
    quiet: bool = False
    told: bool = False


@dataclass(frozen=True)
class Notice:
    """A highlighted message, announced to screen readers."""

    text: str


@dataclass(frozen=True)
class Bullets:
    items: Sequence[str]


@dataclass(frozen=True)
class Line:
    """An entry of a legend: a stroke of `colour` with a label, or only a label."""

    words: str
    colour: str = ""
    dashed: bool = False


@dataclass(frozen=True)
class Legend:
    """A legend of `groups`: title (may be empty) -> lines."""

    groups: Mapping[str, Sequence[Line]]


@dataclass(frozen=True)
class Figure:
    """A plot as `svg` text, made by `figures.svg`; `label` is its text for screen readers."""

    title: str
    label: str
    svg: str
    lines: Sequence[Line] = ()
    words: str = ""


@dataclass(frozen=True)
class Plots:
    """Figures side by side, wrapped to the available width."""

    figures: Sequence[Figure]


@dataclass(frozen=True)
class Moved:
    """A card that compares probabilities (0 to 1) before and now, as bars and in percent.

    `heads` are the headings of the two columns.
    """

    title: str
    rows: Sequence[tuple[str, float, float]]
    heads: tuple[str, str] = ("before", "now")


@dataclass(frozen=True)
class Choices:
    """A numbered list of buttons, pick -> label."""

    items: Mapping[str, str]


@dataclass(frozen=True)
class Download:
    """A button labelled `words` that saves `rows` as the CSV `file`, without drawing them."""

    words: str
    file: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Folded:
    """Pieces that are hidden until their `title` is clicked."""

    title: str
    pieces: "Sequence[Piece]"


Piece = (
    Heading
    | Text
    | Notice
    | Bullets
    | Legend
    | Figure
    | Plots
    | Moved
    | Choices
    | Download
    | Folded
    | Pictures
    | Table
)


class Article(Drawing):
    """Component described in the module docstring, with the event `pick`."""

    def postprocess(self, value: Sequence[Piece] | str | None) -> dict | None:
        return super().postprocess([Notice(value)] if value and isinstance(value, str) else value)

    def drawn(self, value: Sequence[Piece]) -> list[dict]:
        return as_json(list(value), self)


def as_json(value, view: Article):
    """Convert pieces to JSON objects with their `kind`, without empty fields; NaN becomes None.

    An image (height, width, 3) uint8 becomes a file served by `view`.
    """
    if dataclasses.is_dataclass(value):
        fields = {f.name: as_json(getattr(value, f.name), view) for f in dataclasses.fields(value)}
        said = {n: v for n, v in fields.items() if v is not None and v is not False and v != ""}
        return {"kind": type(value).__name__, **said}
    if isinstance(value, Mapping):
        return [[name, as_json(each, view)] for name, each in value.items()]
    if isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 3:
        return served_picture(view, value)
    if isinstance(value, (list, tuple, np.ndarray)):
        return [as_json(each, view) for each in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value
