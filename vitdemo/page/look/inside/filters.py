"""The part "Patch embedding": what the convolution that reads the pixels looks for.

Letters: K filters, p their side in pixels.
"""

import gradio as gr
import numpy as np

from vitdemo.figures.inside import tile
from vitdemo.inside import Filters, first_filters
from vitdemo.page import html
from vitdemo.page.look.inside.pieces import caption, percent
from vitdemo.page.look.tab import Look

PRINCIPAL, STRONGEST = "Principal components", "The strongest filters"
WORDS = {
    PRINCIPAL: (
        "The patterns of {p} x {p} pixels that the {count} filters of the first convolution are "
        "mixed from, and how much of their variance each explains; grey is a weight of 0. They "
        "show what the model can tell apart in a patch, not what it uses; of a pattern and its "
        "negative either may be shown."
    ),
    STRONGEST: (
        "The filters of {p} x {p} pixels with the largest weights, of {count}, and their norm; "
        "each is scaled to its own largest weight, and grey is 0. A filter answers to what looks "
        "like it; a large one need not matter more."
    ),
}


def build(look: Look) -> None:
    """Lay out and wire the part."""
    which = gr.Radio([PRINCIPAL, STRONGEST], value=PRINCIPAL, label="Show", elem_id="which-filters")
    view = gr.HTML(elem_id="filters", apply_default_css=False)

    def draw(image, name, which):
        return filters_html(first_filters(look.workbench, look.workbench.run(name)), which)

    look.add("inside/filters", draw, [which], [view])
    look.linked["filters"] = which


def filters_html(found: Filters, which: str) -> str:
    """Tiles with a number below each."""
    if which == PRINCIPAL:
        named = [
            (f"Component {i}", percent(share), f"{percent(share)} of the variance")
            for i, share in enumerate(found.shares, start=1)
        ]
        tiles = _tiles(found.principal, named)
    else:
        named = [
            (f"Filter {i}", f"{norm:.2f}", f"norm {norm:.2f}")
            for i, norm in enumerate(found.norms, start=1)
        ]
        tiles = _tiles(found.strongest, named)
    words = WORDS[which].format(p=found.principal.shape[-1], count=found.count)
    return caption(words) + f'<div class="vd-tiles">{tiles}</div>'


def _tiles(colours: np.ndarray, named: list[tuple[str, str, str]]) -> str:
    """Filters (K, 3, p, p) with their (name, number, words)."""
    return "".join(
        f'<figure><img src="{html.image_uri(tile(colour))}" alt="{name}: {words}">'
        f"<figcaption>{number}</figcaption></figure>"
        for colour, (name, number, words) in zip(colours, named, strict=True)
    )
