"""A picture under a model epoch by epoch, with a slider and play: all epochs are sent at once.

A handler returns a `Screening`, or a sentence. The value that reaches the script, maps row by row,
the likeliest class of the last epoch first:

    {"run", "seen": file, "grid": [rows, columns], "layers", "epochs": [...], "classes": [...],
     "shares": [[of each class] an epoch], "predicted": [class an epoch],
     "label": the true class, or None where it is not known or not one of the model's,
     "words": when it was learned, "maps": [[[...] a layer] an epoch]} or {"sentence": str}
"""

from dataclasses import dataclass

from vitdemo.film import Film, when_learned
from vitdemo.page.components import Drawing, served_picture

SHOWN = 5  # classes
DIGITS = 3  # of a value of a map: more than its colours show


@dataclass(frozen=True)
class Screening:
    """A film and the picture's true class, where it is known."""

    film: Film
    label: str | None = None


class FilmView(Drawing):
    """See the module."""

    def drawn(self, value: Screening) -> dict:
        film, classes, words = value.film, value.film.run.classes, ""
        order = list(film.probabilities[-1].argsort()[::-1][:SHOWN])
        label = value.label if value.label in classes else None
        if label is not None:
            truth = classes.index(label)
            order = order if truth in order else [*order[:-1], truth]
            words = when_learned(list(film.predicted == truth), film.epochs)
        return {
            "run": film.run.name,
            "seen": served_picture(self, film.seen),
            "grid": list(film.grid),
            "layers": film.maps.shape[1],
            "epochs": list(film.epochs),
            "classes": [classes[i] for i in order],
            "shares": [[round(float(row[i]), 4) for i in order] for row in film.probabilities],
            "predicted": [classes[i] for i in film.predicted],
            "label": label,
            "words": words,
            "maps": [
                [[float(f"{v:.{DIGITS}g}") for v in layer] for layer in epoch]
                for epoch in film.maps
            ],
        }
