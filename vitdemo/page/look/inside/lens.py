"""The part "Logit lens": the model's answer if it stopped there, and from each patch.

Letters: L layers, P patches, C classes.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from vitdemo.inside.logit_lens import Lens, logit_lens
from vitdemo.page.components.lens import Drawn, LensView
from vitdemo.page.kit import nearest
from vitdemo.page.look.tab import Look

ALL_NAMED = 12  # classes; of more, the strip names the strongest
STRONGEST = 8
# Paul Tol's "muted" scheme, https://personal.sron.nl/~pault: ten colours that the colour-blind tell
# apart. The grey one is also for all that has no colour of its own.
CLASS_COLOURS = (
    *("#cc6677", "#332288", "#ddcc77", "#117733", "#88ccee"),
    *("#882255", "#44aa99", "#999933", "#aa4499", "#dddddd"),
)
APPROXIMATE = (
    "The model's last norm and classifier read every layer here, though they were trained to read "
    "only what comes out of the last one. The last column is the model's prediction; the others "
    "are approximations, and a later one is not always better. Choose a layer by its number."
)
PATCHES = (
    "The same classifier reads each patch by itself. In a model with a class token it was not "
    "trained to read patches, and each layer mixes a patch with others. So its word is a hint at "
    "what the token holds, not a label of that place."
)


def build(look: Look) -> None:
    """Lay out and wire the part; the browser draws whichever layer is chosen."""
    view = LensView(elem_id="lens")

    def draw(image, name, layer):
        found = logit_lens(look.workbench, look.workbench.run(name), image)
        return drawn(found, nearest(layer, len(found.answers) - 1))

    look.add("inside/lens", draw, [look.layer], [view], by=[])
    look.choose_layer_on(view.layer)


def drawn(found: Lens, layer: int) -> Drawn:
    """The strip names a model's strongest classes where it has many."""
    shown, classes = strongest(found.answers), found.run.classes
    rest = f" Of {len(classes)} classes the {len(shown)} strongest are shown."
    words = APPROXIMATE + (rest if len(shown) < len(classes) else ""), PATCHES
    return Drawn(found, layer, shown, class_colours(found.patches), short_names(classes), words)


def strongest(answers: np.ndarray) -> list[int]:
    """The classes to show of (L+1, C): all of a few, else those that are ever the most probable."""
    if answers.shape[1] <= ALL_NAMED:
        return list(range(answers.shape[1]))
    top = np.argsort(-answers.max(0), kind="stable")[:STRONGEST]
    return sorted(top.tolist(), key=lambda c: -answers[-1, c])


def class_colours(patches: np.ndarray) -> list[str]:
    """A colour for each class: fixed where there are enough, else for those that most of the
    patches (L+1, P, C) say; the others share the last, grey one."""
    C = patches.shape[2]
    common = range(C)
    if len(CLASS_COLOURS) < C:
        counted = Counter(patches.argmax(2).ravel().tolist())
        common = [c for c, _ in counted.most_common(len(CLASS_COLOURS) - 1)]
    colours = dict(zip(common, CLASS_COLOURS, strict=False))
    return [colours.get(c, CLASS_COLOURS[-1]) for c in range(C)]


def short_names(classes: Sequence[str]) -> list[str]:
    """The shortest beginnings of one length, two to four letters, that differ; else numbers."""
    for length in (2, 3, 4):
        short = [name[:length] for name in classes]
        if len(set(short)) == len(classes):
            return short
    return [str(i) for i in range(len(classes))]
