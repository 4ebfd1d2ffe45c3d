"""Animation of the attention to one image across epochs, with a slider and a play button.

A handler returns a `SnapshotPayload`, or a message. All epochs are sent at once. The script
receives each map row by row, and the classes in the order of their last probabilities:

    {"run", "seen": file, "grid": [rows, columns], "layers", "epochs": [...], "classes": [...],
     "shares": [[probability per class] per epoch], "predicted": [class per epoch],
     "label": the true class, or None if it is unknown or not a class of the model,
     "words": learning progress, "maps": [[[...] per layer] per epoch]} or {"sentence": str}
"""

from dataclasses import dataclass

from vitdemo.analyses.snapshots import Snapshots, describe_learning
from vitdemo.page.components import View, serve_image

MAX_CLASSES_SHOWN = 5  # number of classes shown
MAP_DIGITS = 3  # significant digits of a map's values, enough for the colours


@dataclass(frozen=True)
class SnapshotPayload:
    """Attention and predictions of one image per epoch, and its true class if known."""

    snapshots: Snapshots
    label: str | None = None


class SnapshotView(View):
    """Animation of the attention to one image across epochs."""

    def to_payload(self, value: SnapshotPayload) -> dict:
        film, classes, words = value.snapshots, value.snapshots.run.classes, ""
        order = list(film.probabilities[-1].argsort()[::-1][:MAX_CLASSES_SHOWN])
        label = value.label if value.label in classes else None
        if label is not None:
            truth = classes.index(label)
            order = order if truth in order else [*order[:-1], truth]
            words = describe_learning(list(film.predicted == truth), film.epochs)
        return {
            "run": film.run.name,
            "seen": serve_image(self, film.input_image),
            "grid": list(film.grid),
            "layers": film.maps.shape[1],
            "epochs": list(film.epochs),
            "classes": [classes[i] for i in order],
            "shares": [[round(float(row[i]), 4) for i in order] for row in film.probabilities],
            "predicted": [classes[i] for i in film.predicted],
            "label": label,
            "words": words,
            "maps": [
                [[float(f"{v:.{MAP_DIGITS}g}") for v in layer] for layer in epoch]
                for epoch in film.maps
            ],
        }
