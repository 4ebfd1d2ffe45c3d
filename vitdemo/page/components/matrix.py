"""A confusion matrix: cells that are real buttons, in words for who hears them, and its CSV.

    view = MatrixView(elem_id="confusion-matrix")
    view.pick(handler, ...)       # handler(event: gr.EventData, ...): event.pick is "i-j"

A handler returns a `Drawn`, or a sentence that says why there is none. Letters: C classes; a cell
(i, j) holds the pictures of class i that were predicted to be j.
"""

from dataclasses import dataclass

import numpy as np

from vitdemo.page.components import Drawing


@dataclass(frozen=True, eq=False)
class Drawn:
    """What the cells say, show and are called: `texts`, `values`, `strengths`, `spoken` (C, C).

    A strength of -1 to 1 is how strong the colour is; `signed`: a difference of two models, the
    second one purple. `pairs` are sentences by the cell they choose, `cell` the chosen one.
    """

    run: str
    classes: tuple[str, ...]
    values: np.ndarray
    strengths: np.ndarray
    texts: list[list[str]]
    spoken: list[list[str]]
    signed: bool
    cell: tuple[int, int] | None
    pairs: dict[str, str]
    words: list[str]
    file: str


class MatrixView(Drawing):
    """See the module. Its event: `pick`."""

    def drawn(self, value: Drawn) -> dict:
        arrays = {
            "values": value.values.tolist(),
            "strengths": value.strengths.round(4).tolist(),
            "pairs": list(value.pairs.items()),
        }
        return vars(value) | arrays
