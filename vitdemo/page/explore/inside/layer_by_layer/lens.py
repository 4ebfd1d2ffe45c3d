"""Predictions after each layer, for the image and for each patch (logit lens).

    {"seen": file, "grid": [rows, columns], "total": C, "classes": [names of K classes],
     "answers": (L+1, K),
     "named": {"names": [], "short": [], "colours": []}, the classes that are predicted for patches,
     "predicted": (L+1, P) of "named", "shares": (L+1, P)}

Letters: L layers, P patches, C classes, of which K are shown.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from vitdemo.explain.image_trace import ImageTrace
from vitdemo.explain.logit_lens import apply_logit_lens
from vitdemo.page.graph import Choice, Constant, Numbers, Outputs

PROBABILITY_DIGITS = 6  # enough for equal rounding in the browser and in Python
MAX_LENS_CLASSES = 12  # with more classes, only `NUM_TOP_CLASSES` are shown
NUM_TOP_CLASSES = 8
# Paul Tol's "muted" scheme (https://personal.sron.nl/~pault) is safe for colour-blind readers. The
# last colour, grey, is for all other classes.
CLASS_COLOURS = (
    *("#cc6677", "#332288", "#ddcc77", "#117733", "#88ccee"),
    *("#882255", "#44aa99", "#999933", "#aa4499", "#dddddd"),
)


def compute_lens(model: nn.Module, trace: ImageTrace) -> Outputs:
    """Compute the logit lens of one image."""
    results = apply_logit_lens(model, trace.tokens[:, None])
    return describe_predictions(trace.run.classes, *(each[:, 0] for each in results))


def describe_predictions(classes: Sequence[str], predictions: Tensor, patches: Tensor) -> Outputs:
    """Return the probabilities `predictions` (L+1, C) and `patches` (L+1, P, C) for the payload.

    Only the most probable of many classes are shown.
    """
    shown = select_classes(predictions)
    shares, predicted = patches.max(2)  # (L+1, P)
    counts = count_predictions(predicted, patches.shape[2])  # (C,)
    used = torch.where(counts > 0, torch.arange(len(counts), device=counts.device), -1)
    return {
        "classes": Choice(shown, classes),
        "answers": Numbers(predictions.index_select(1, shown), PROBABILITY_DIGITS),
        "named": Constant({}),
        "named.names": Choice(used, classes),
        "named.short": Choice(used, abbreviate_names(classes)),
        "named.colours": Choice(
            torch.where(counts > 0, assign_class_colours(counts), -1), CLASS_COLOURS
        ),
        "predicted": Numbers(((counts > 0).cumsum(0) - 1)[predicted]),
        "shares": Numbers(shares, PROBABILITY_DIGITS),
    }


def select_classes(probabilities: Tensor) -> Tensor:
    """Select the classes (K,) to show, given probabilities (L+1, C): all, or the most probable."""
    C = probabilities.shape[1]
    if C <= MAX_LENS_CLASSES:
        return torch.arange(C, device=probabilities.device)
    top = probabilities.amax(0).topk(NUM_TOP_CLASSES).indices  # (K,)
    return top[probabilities[-1][top].topk(NUM_TOP_CLASSES).indices]


def count_predictions(predicted: Tensor, C: int) -> Tensor:
    """Return the number of patches and layers of each class (C,), given classes (L+1, P)."""
    return (predicted.flatten()[:, None] == torch.arange(C, device=predicted.device)).sum(0)


def assign_class_colours(counts: Tensor) -> Tensor:
    """Return the index of a colour for each class, given the numbers (C,) of predicted patches.

    If there are more classes than colours, the classes predicted for most patches get a colour,
    and all other classes are grey.
    """
    C, known = len(counts), torch.arange(len(counts), device=counts.device)
    if len(CLASS_COLOURS) >= C:
        return known
    is_before = (counts[None] > counts[:, None]) | (
        (counts[None] == counts[:, None]) & (known[None] < known[:, None])
    )  # (C, C): whether the class of the column comes before that of the row
    return is_before.sum(1).clamp(max=len(CLASS_COLOURS) - 1)


def abbreviate_names(classes: Sequence[str]) -> list[str]:
    """Abbreviate class names to 2 to 4 letters; return numbers if 4 letters are ambiguous."""
    for length in (2, 3, 4):
        short = [name[:length] for name in classes]
        if len(set(short)) == len(classes):
            return short
    return [str(i) for i in range(len(classes))]
