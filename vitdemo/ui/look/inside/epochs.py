"""The part "In training": what a layer looked at in one picture, epoch by epoch."""

from collections.abc import Callable, Iterator

import gradio as gr
import numpy as np
from PIL import Image

from vitdemo.explorer import Look
from vitdemo.explorer.inside import EpochMap
from vitdemo.ui import html
from vitdemo.ui.look.drawing import map_figure
from vitdemo.ui.look.inside.parts import Parts
from vitdemo.ui.look.inside.pieces import caption, percent
from vitdemo.ui.look.shared import nearest

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
    look: Callable[[str, Image.Image], Look],
    across_epochs: Callable[[str, Image.Image, int], Iterator[EpochMap]],
    with_epochs: Callable[[], list[str]],
) -> None:
    """Lay out and wire the part; `across_epochs(run_name, image, layer)`, its layer from 0.

    `with_epochs` names the runs that kept more than their last weights.
    """
    view = gr.HTML(elem_id="epochs-inside", apply_default_css=False)

    def draw(image, name, layer):
        found = look(name, image)
        layer = nearest(layer, found.layers)
        maps = list(across_epochs(name, image, layer - 1))
        return epochs_html(found, layer, maps, [] if maps else with_epochs())

    layer = parts.shared.layer
    parts.draw("epochs", draw, [layer], [view], by=[layer])


def epochs_html(look: Look, layer: int, maps: list[EpochMap], others: list[str]) -> str:
    """A strip of maps, or which `others` have one, and how to keep the weights for it."""
    if not maps:
        words = f"; choose {' or '.join(others)} above, which kept more" if others else ""
        return html.notice(NONE_KEPT.format(name=look.run.name, others=words))
    strip = (map_figure(look, each.values, 0.6, title(look, each), 160) for each in maps)
    return caption(WORDS.format(layer=layer)) + html.row(strip, 160)


def title(look: Look, each: EpochMap) -> str:
    said = int(np.argmax(each.probabilities))
    when = "In the end" if each.epoch is None else f"Epoch {each.epoch}"
    return f"{when}: says {look.run.classes[said]}, {percent(each.probabilities[said])}"
