"""Headings, sentences, tables, figures and pictures below each other: what most tabs show.

    view = Article(elem_id="calibration")
    view.pick(handler, ...)       # of a button in it; handler(event: gr.EventData, ...): event.pick

A handler returns a sentence, or a list of pieces: those below, `Table` and `Pictures`. The value
that reaches the script is the same list, each piece a JSON object of its fields with `"kind": the
name of its class`. In `Text`, `Bullets` and the title of `Moved`, **two stars** make words strong
and `backticks` make code.
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
    """A paragraph; a `quiet` one is small. Screen readers tell at once what is `told`."""

    text: str
    quiet: bool = False
    told: bool = False


@dataclass(frozen=True)
class Notice:
    """A sentence set apart, which screen readers tell at once."""

    text: str


@dataclass(frozen=True)
class Bullets:
    items: Sequence[str]


@dataclass(frozen=True)
class Line:
    """An entry of a legend: a stroke of `colour`, or words alone."""

    words: str
    colour: str = ""
    dashed: bool = False


@dataclass(frozen=True)
class Legend:
    """`groups` of lines by their title, which may be empty."""

    groups: Mapping[str, Sequence[Line]]


@dataclass(frozen=True)
class Figure:
    """A plot as `svg` text, from `figures.svg`; `label` is read to those who do not see it."""

    title: str
    label: str
    svg: str
    lines: Sequence[Line] = ()
    words: str = ""


@dataclass(frozen=True)
class Plots:
    """Figures side by side, as many as there is room for."""

    figures: Sequence[Figure]


@dataclass(frozen=True)
class Moved:
    """A card: names with their shares (0 to 1) before and now, as bars, in percent and points.

    `heads` say what before and now are.
    """

    title: str
    rows: Sequence[tuple[str, float, float]]
    heads: tuple[str, str] = ("before", "now")


@dataclass(frozen=True)
class Choices:
    """Buttons by what they pick, each a line, numbered."""

    items: Mapping[str, str]


@dataclass(frozen=True)
class Download:
    """A button `words` that saves the CSV `file` of `rows` too many to be drawn."""

    words: str
    file: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Folded:
    """Pieces behind a `title` that unfolds them."""

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
    """See the module. Its event: `pick`."""

    def postprocess(self, value: Sequence[Piece] | str | None) -> dict | None:
        return super().postprocess([Notice(value)] if value and isinstance(value, str) else value)

    def drawn(self, value: Sequence[Piece]) -> list[dict]:
        return as_json(list(value), self)


def as_json(value, view: Article):
    """Pieces as plain JSON, each with its `kind`; what says nothing is left out, NaN is None.

    A picture (height, width, 3) uint8 becomes a file that `view` serves.
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
