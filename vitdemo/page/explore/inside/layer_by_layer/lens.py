"""Predictions after each layer, for the image and for each patch (logit lens).

    {"seen": file, "grid": [rows, columns], "total": C, "classes": [names of K classes],
     "answers": (L+1, K), "named": [{"name", "short", "colour"}, ...],
     "predicted": (L+1, P) of "named", "shares": (L+1, P)}

Letters: L layers, P patches, C classes, of which K are shown.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from torch import nn

from vitdemo.explain.image_trace import ImageTrace
from vitdemo.explain.logit_lens import compute_logit_lens
from vitdemo.page.bridge import ImageFile, round_numbers

PROBABILITY_DIGITS = 6  # enough for equal rounding in the browser and in Python
MAX_LENS_CLASSES = 12  # with more classes, only `NUM_TOP_CLASSES` are shown
NUM_TOP_CLASSES = 8
# Paul Tol's "muted" scheme (https://personal.sron.nl/~pault) is safe for colour-blind readers. The
# last colour, grey, is for all other classes.
CLASS_COLOURS = (
    *("#cc6677", "#332288", "#ddcc77", "#117733", "#88ccee"),
    *("#882255", "#44aa99", "#999933", "#aa4499", "#dddddd"),
)


def describe_lens(model: nn.Module, trace: ImageTrace) -> dict:
    """Return the logit lens of one image. Raises `RunError` for a model without classes."""
    lens = compute_logit_lens(model, trace)
    return {
        "seen": ImageFile(trace.input_image),
        "grid": list(trace.grid),
        "total": len(trace.run.classes),
        **describe_predictions(trace.run.classes, lens.predictions, lens.patches),
    }


def describe_predictions(
    classes: Sequence[str], predictions: np.ndarray, patches: np.ndarray
) -> dict:
    """Return the probabilities `predictions` (L+1, C) and `patches` (L+1, P, C) for the payload.

    Only the most probable of many classes are shown.
    """
    shown = select_classes(predictions)
    colours, short_names = assign_class_colours(patches), abbreviate_names(classes)
    named, predicted = np.unique(patches.argmax(2), return_inverse=True)
    return {
        "classes": [classes[c] for c in shown],
        "answers": round_numbers(predictions[:, shown], PROBABILITY_DIGITS),
        "named": [
            {"name": classes[c], "short": short_names[c], "colour": colours[c]}
            for c in named.tolist()
        ],
        "predicted": predicted.reshape(patches.shape[:2]).tolist(),
        "shares": round_numbers(patches.max(2), PROBABILITY_DIGITS),
    }


def select_classes(probabilities: np.ndarray) -> list[int]:
    """Select the classes to show, given probabilities (L+1, C): all, or the most probable."""
    if probabilities.shape[1] <= MAX_LENS_CLASSES:
        return list(range(probabilities.shape[1]))
    top = np.argsort(-probabilities.max(0), kind="stable")[:NUM_TOP_CLASSES]
    return sorted(top.tolist(), key=lambda c: -probabilities[-1, c])


def assign_class_colours(patches: np.ndarray) -> list[str]:
    """Return a colour for each class, given the class probabilities of all patches (L+1, P, C).

    If there are more classes than colours, the classes predicted for most patches get a colour,
    and all other classes are grey.
    """
    C = patches.shape[2]
    common = range(C)
    if len(CLASS_COLOURS) < C:
        counted = Counter(patches.argmax(2).ravel().tolist())
        common = [c for c, _ in counted.most_common(len(CLASS_COLOURS) - 1)]
    colours = dict(zip(common, CLASS_COLOURS, strict=False))
    return [colours.get(c, CLASS_COLOURS[-1]) for c in range(C)]


def abbreviate_names(classes: Sequence[str]) -> list[str]:
    """Abbreviate class names to 2 to 4 letters; return numbers if 4 letters are ambiguous."""
    for length in (2, 3, 4):
        short = [name[:length] for name in classes]
        if len(set(short)) == len(classes):
            return short
    return [str(i) for i in range(len(classes))]
