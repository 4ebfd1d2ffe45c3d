"""The part "In training": what a layer looked at in one picture, epoch by epoch."""

import numpy as np

from vitdemo.inside.epochs import EpochMap, across_epochs, with_epochs
from vitdemo.page.components.maps import MapRow, Maps, Panel, peak
from vitdemo.page.kit import nearest
from vitdemo.page.look.tab import Look
from vitdemo.traced import Traced

WORDS = (
    "What the answer takes from each patch in layer {layer}, mean of the heads, after the epochs "
    "whose weights were kept; each map is scaled to its own maximum. Attention that moves shows "
    "that the layer changed, not that it got better: the answer stands below each map."
)
NONE_KEPT = (
    "'{name}' kept no weights but its last{others}. `python train.py RECIPE --keep 1,2,4,8` keeps "
    "those of the epochs that it names, to be seen here."
)


def build(look: Look) -> None:
    """Lay out and wire the part."""
    view = Maps(elem_id="epochs-inside")

    def draw(image, name, layer):
        found = look.traced(name, image)
        layer = nearest(layer, found.layers)
        maps = list(across_epochs(look.workbench, found.run, image, layer - 1))
        return row(found, layer, maps, [] if maps else with_epochs(look.workbench))

    look.add("inside/epochs", draw, [look.layer], [view])


def row(found: Traced, layer: int, epochs: list[EpochMap], others: list[str]) -> MapRow | str:
    """A strip of maps, or which `others` have one, and how to keep the weights for it."""
    if not epochs:
        words = f"; choose {' or '.join(others)} above, which kept more" if others else ""
        return NONE_KEPT.format(name=found.run.name, others=words)
    return MapRow([panel(found, each) for each in epochs], WORDS.format(layer=layer))


def panel(found: Traced, each: EpochMap) -> Panel:
    predicted = int(np.argmax(each.probabilities))
    when = "In the end" if each.epoch is None else f"Epoch {each.epoch}"
    share = 100 * each.probabilities[predicted]
    answer = f"predicts {found.run.classes[predicted]}, {share:.1f} %"
    words = f"{found.run.name}, {when.lower()}: {answer}, strongest in {peak(each.values)}"
    return Panel(when, each.values, found.seen, words, lines=[answer])
