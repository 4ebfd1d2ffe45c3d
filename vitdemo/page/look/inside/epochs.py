"""The part "In training": what a layer looked at in one picture, epoch by epoch."""

from collections.abc import Callable, Iterator

import numpy as np
from PIL import Image

from vitdemo.explorer.inside import EpochMap
from vitdemo.page.components.maps import Maps, Panel, Row, peak
from vitdemo.page.look.inside.parts import Parts
from vitdemo.page.look.inside.pieces import percent
from vitdemo.page.look.shared import nearest
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


def build(
    parts: Parts,
    *,
    look: Callable[[str, Image.Image], Traced],
    across_epochs: Callable[[str, Image.Image, int], Iterator[EpochMap]],
    with_epochs: Callable[[], list[str]],
) -> None:
    """Lay out and wire the part; `across_epochs(run_name, image, layer)`, its layer from 0.

    `with_epochs` names the runs that kept more than their last weights.
    """
    view = Maps(elem_id="epochs-inside")

    def draw(image, name, layer):
        found = look(name, image)
        layer = nearest(layer, found.layers)
        maps = list(across_epochs(name, image, layer - 1))
        return row(found, layer, maps, [] if maps else with_epochs())

    layer = parts.shared.layer
    parts.draw("epochs", draw, [layer], [view], by=[layer])


def row(look: Traced, layer: int, epochs: list[EpochMap], others: list[str]) -> Row | str:
    """A strip of maps, or which `others` have one, and how to keep the weights for it."""
    if not epochs:
        words = f"; choose {' or '.join(others)} above, which kept more" if others else ""
        return NONE_KEPT.format(name=look.run.name, others=words)
    return Row([panel(look, each) for each in epochs], WORDS.format(layer=layer))


def panel(look: Traced, each: EpochMap) -> Panel:
    predicted = int(np.argmax(each.probabilities))
    when = "In the end" if each.epoch is None else f"Epoch {each.epoch}"
    answer = f"predicts {look.run.classes[predicted]}, {percent(each.probabilities[predicted])}"
    words = f"{look.run.name}, {when.lower()}: {answer}, strongest in {peak(each.values)}"
    return Panel(when, each.values, look.seen, words, lines=[answer])
