"""Logit lens: predictions after each layer, and the class of each patch after a chosen layer.

    view = LensView(elem_id="lens")
    view.layer(None, None, [slider, chosen], js=LAYER)  # the user chose another layer

A handler returns a `LensData`, or a message if there is nothing to draw. The payload contains all
layers; the script selects one and follows the tab's slider:

    {"run": str, "seen": file, "grid": [rows, columns], "words": [caption, caption of the patches],
     "layer": 0..L, "classes": [names], "answers": (L+1, shown),
     "named": [{"name", "short", "colour"}, ...], "predicted": (L+1, P) of them, "shares": (L+1, P)}
"""

from dataclasses import dataclass

import numpy as np

from vitdemo.explain.logit_lens import LogitLens
from vitdemo.page.components import View, serve_image

PROBABILITY_DIGITS = 6  # so that the browser rounds to the same percentage as Python


@dataclass(frozen=True, eq=False)
class LensData:
    """A logit lens, the classes shown in its strip, and its initial `layer` (0: embedding).

    `colours` and `short_names` names are for all classes, since a patch may have any class.
    """

    lens: LogitLens
    layer: int
    shown_classes: list[int]
    colours: list[str]
    short_names: list[str]
    captions: tuple[str, str]


class LensView(View):
    """View of a logit lens, see the module. Its event: `layer`."""

    def to_payload(self, value: LensData) -> dict:
        found, classes = value.lens, value.lens.run.classes
        named, predicted = np.unique(found.patches.argmax(2), return_inverse=True)
        return {
            "run": found.run.name,
            "seen": serve_image(self, found.trace.input_image),
            "grid": list(found.trace.grid),
            "words": list(value.captions),
            "layer": value.layer,
            "classes": [classes[c] for c in value.shown_classes],
            "answers": found.predictions[:, value.shown_classes]
            .astype(float)
            .round(PROBABILITY_DIGITS)
            .tolist(),
            "named": [
                {"name": classes[c], "short": value.short_names[c], "colour": value.colours[c]}
                for c in named.tolist()
            ],
            "predicted": predicted.reshape(found.patches.shape[:2]).tolist(),
            "shares": found.patches.max(2).astype(float).round(PROBABILITY_DIGITS).tolist(),
        }
