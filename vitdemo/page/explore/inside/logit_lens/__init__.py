"""The part "Logit lens": predictions after each layer, for the image and for each patch.

The payload contains all layers, so `view.js` can show another layer without a request:

    {"run": str, "seen": file, "grid": [rows, columns], "captions": [caption, for patches],
     "about": str, "classes": [names], "answers": (L+1, classes),
     "named": [{"name", "short", "colour"}, ...],
     "predicted": (L+1, P) of "named", "shares": (L+1, P)}

Letters: L layers, P patches, C classes.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from vitdemo.context import AppContext
from vitdemo.explain.logit_lens import LogitLens, compute_logit_lens
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import ImageFile, load_trace, round_numbers
from vitdemo.page.feature import Feature
from vitdemo.page.view_state import ViewState, needs

VIEW = "logit_lens"
PROBABILITY_DIGITS = 6  # enough for equal rounding in the browser and in Python
MAX_LENS_CLASSES = 12  # with more classes, only `NUM_TOP_CLASSES` are shown
NUM_TOP_CLASSES = 8
# Paul Tol's "muted" scheme (https://personal.sron.nl/~pault) is safe for colour-blind readers. The
# last colour, grey, is for all other classes.
CLASS_COLOURS = (
    *("#cc6677", "#332288", "#ddcc77", "#117733", "#88ccee"),
    *("#882255", "#44aa99", "#999933", "#aa4499", "#dddddd"),
)
LENS_CAPTION = (
    "The classifier head is applied to the tokens after each layer. The last column is the "
    "model's prediction. Click a layer number to choose the layer."
)
LENS_PATCHES_CAPTION = "The same classifier head is applied to each patch token."
ABOUT_LENS = (
    "The final LayerNorm and the classifier head were trained only on the output of the last "
    "layer, so the other columns are approximations. The class of a patch token is not a label of "
    "the patch, because each token contains information from other patches. A classifier head for "
    "the class token was not trained on patch tokens."
)


@needs(keys.IMAGE, keys.MODEL)
def payload(context: AppContext, state: ViewState) -> dict:
    trace = load_trace(context, state)
    return to_payload(compute_logit_lens(context.load_model(trace.run), trace))


FEATURE = Feature({VIEW: payload})


def to_payload(lens: LogitLens) -> dict:
    """Convert a logit lens to its payload, with only the most probable of many classes."""
    shown, classes = select_classes(lens.predictions), lens.trace.run.classes
    rest = f" The {len(shown)} most probable of {len(classes)} classes are shown."
    colours, short_names = assign_class_colours(lens.patches), abbreviate_names(classes)
    named, predicted = np.unique(lens.patches.argmax(2), return_inverse=True)
    return {
        "run": lens.trace.run.name,
        "seen": ImageFile(lens.trace.input_image),
        "grid": list(lens.trace.grid),
        "captions": [
            LENS_CAPTION + (rest if len(shown) < len(classes) else ""),
            LENS_PATCHES_CAPTION,
        ],
        "about": ABOUT_LENS,
        "classes": [classes[c] for c in shown],
        "answers": round_numbers(lens.predictions[:, shown], PROBABILITY_DIGITS),
        "named": [
            {"name": classes[c], "short": short_names[c], "colour": colours[c]}
            for c in named.tolist()
        ],
        "predicted": predicted.reshape(lens.patches.shape[:2]).tolist(),
        "shares": round_numbers(lens.patches.max(2), PROBABILITY_DIGITS),
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
