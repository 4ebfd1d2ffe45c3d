"""Confusion matrix with a button per cell, and a CSV export.

    view = ConfusionView(elem_id="confusion-matrix")
    view.pick(handler, ...)       # handler(event: gr.EventData, ...): event.pick is "i-j"

A handler returns a `ConfusionPayload`, or an error message. Letters: C classes; cell (i, j) holds
the images of class i that were predicted as class j.
"""

from dataclasses import dataclass

import numpy as np

from vitdemo.page.components import View


@dataclass(frozen=True, eq=False)
class ConfusionPayload:
    """Confusion matrix to draw; `values`, `texts`, `strengths` and `spoken` are (C, C).

    `strengths` (-1 to 1) define the colours, and `spoken` are labels for screen readers. `signed`
    marks a difference of two models, with negative values in purple. `cell` is the chosen cell, and
    `pairs` maps the picks of confused class pairs to sentences.
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


class ConfusionView(View):
    """Confusion matrix; the event `pick` means that the user chose a cell."""

    def to_payload(self, value: ConfusionPayload) -> dict:
        arrays = {
            "values": value.values.tolist(),
            "strengths": value.strengths.round(4).tolist(),
            "pairs": list(value.pairs.items()),
        }
        return vars(value) | arrays
