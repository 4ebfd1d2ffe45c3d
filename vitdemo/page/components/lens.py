"""The logit lens: the answer after each layer, and the class of each patch after a chosen one.

    view = LensView(elem_id="lens")
    view.layer(None, None, [slider, chosen], js=LAYER)  # another layer was chosen

A handler returns a `Drawn`, or a sentence that says why there is none. All layers travel at once;
the script chooses among them, and follows the tab's slider. The value that reaches it:

    {"run": str, "seen": file, "grid": [rows, columns], "words": [of the answers, of the patches],
     "layer": 0..L, "classes": [names], "answers": (L+1, shown),
     "named": [{"name", "short", "colour"}, ...], "predicted": (L+1, P) of them, "shares": (L+1, P)}
"""

from dataclasses import dataclass

import numpy as np

from vitdemo.inside.logit_lens import Lens
from vitdemo.page.components import Drawing, served_picture

DIGITS = 6  # of a share: whole percent are to be rounded as Python rounds them


@dataclass(frozen=True, eq=False)
class Drawn:
    """A lens whose strip names the classes `shown`, with a colour and a short name for each class
    that a patch has; it begins at `layer`, 0 before the first."""

    lens: Lens
    layer: int
    shown: list[int]
    colours: list[str]
    short: list[str]
    words: tuple[str, str]


class LensView(Drawing):
    """See the module. Its event: `layer`."""

    def drawn(self, value: Drawn) -> dict:
        found, classes = value.lens, value.lens.run.classes
        named, predicted = np.unique(found.patches.argmax(2), return_inverse=True)
        return {
            "run": found.run.name,
            "seen": served_picture(self, found.seen),
            "grid": list(found.grid),
            "words": list(value.words),
            "layer": value.layer,
            "classes": [classes[c] for c in value.shown],
            "answers": found.answers[:, value.shown].astype(float).round(DIGITS).tolist(),
            "named": [
                {"name": classes[c], "short": value.short[c], "colour": value.colours[c]}
                for c in named.tolist()
            ],
            "predicted": predicted.reshape(found.patches.shape[:2]).tolist(),
            "shares": found.patches.max(2).astype(float).round(DIGITS).tolist(),
        }
