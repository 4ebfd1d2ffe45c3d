"""Attention knock-out in "Change the image": bar the class token from the patches in some layers.

The barred layers are first..last. If last is below first, as initially, no layer is barred.
"""

from dataclasses import dataclass

import gradio as gr
from gradio.components import Component
from PIL import Image

from vitdemo.errors import RunError, VitdemoError
from vitdemo.inside.knockout import FINDING, KnockOut, knock_out
from vitdemo.metrics import percent, top_k
from vitdemo.page.components.article import Article, Moved, Notice, Piece, Text
from vitdemo.page.kit import LayerSlider
from vitdemo.workbench import Workbench

COMMON_DEPTH = 12  # layers of ViT-Tiny to ViT-Base
NO_LAYERS = (1, 0)  # first and last
MAX_CLASSES = 5  # in the card, and the new prediction
ABOUT = (
    "**Attention knock-out.** In the chosen layers, the class token of the chosen model cannot "
    "attend to any patch. If the prediction stays the same, it does not depend on what the class "
    f"token reads there. {FINDING}"
)
NONE_BARRED = "No layer is barred. Move the second slider to bar layers 1 to that layer."
LIMIT = "The model was not trained with barred attention. This may cause part of the change."


@dataclass(frozen=True)
class Parts:
    """The components of the knock-out."""

    first: gr.Slider
    last: gr.Slider
    result: Article

    @property
    def layers(self) -> list[Component]:
        return [self.first, self.last]

    @property
    def drawn(self) -> list[Component]:
        """Outputs of `draw`."""
        return [*self.layers, self.result]


def lay_out() -> Parts:
    """Lay out the two sliders and the result next to them."""
    with gr.Row(elem_id="knockout"):
        with gr.Column(scale=1, min_width=300):
            gr.Markdown(ABOUT)
            with gr.Row():
                first = LayerSlider(
                    1,
                    COMMON_DEPTH,
                    NO_LAYERS[0],
                    step=1,
                    label="First barred layer",
                    elem_id="barred-first",
                    min_width=140,
                )
                last = LayerSlider(
                    0,
                    COMMON_DEPTH,
                    NO_LAYERS[1],
                    step=1,
                    label="Last barred layer (0: none)",
                    elem_id="barred-last",
                    min_width=140,
                )
        with gr.Column(scale=1, min_width=300):
            result = Article(elem_id="knockout-result", min_height=60)
    return Parts(first, last, result)


def draw(
    workbench: Workbench, name: str, image: Image.Image, first: float | None, last: float | None
) -> tuple:
    """Return the values of `Parts.drawn` for the run `name` and the changed image."""
    try:
        run = workbench.run(name)
        depth = workbench.layers(run)
        if not depth:
            raise RunError(f"'{run.name}' has no attention to bar. Choose a Vision Transformer.")
        found = knock_out(workbench, run, image, layers(first, last, depth))
    except VitdemoError as error:
        locked = gr.update(interactive=False)
        return locked, locked, [Notice(str(error))]
    return limited(first, 1, depth), limited(last, 0, depth), pieces(found)


def layers(first: float | None, last: float | None, depth: int) -> range:
    """Return the barred layers, counted from 0; values out of range are clamped."""
    start, stop = within(first, 1, depth), within(last, 0, depth)
    return range(start - 1, max(stop, start - 1))


def within(value: float | None, low: int, top: int) -> int:
    return min(max(round(low if value is None else value), low), top)


def limited(value: float | None, low: int, top: int) -> dict:
    """Return an update of a slider to `low`..`top`, with a new value only if necessary."""
    kept = within(value, low, top)
    moved = {} if kept == value else {"value": kept}
    return gr.update(maximum=top, interactive=True, **moved)


def pieces(found: KnockOut) -> list[Piece]:
    """Return a sentence and a card with the probabilities before and after."""
    if not found.layers:
        return [Text(NONE_BARRED, told=True)]
    before, now = int(found.before.argmax()), int(found.after.argmax())
    shown = top_k(found.before, min(MAX_CLASSES, len(found.run.classes)))[0].tolist()
    shown += [] if now in shown else [now]
    rows = [(found.run.classes[c], float(found.before[c]), float(found.after[c])) for c in shown]
    verdict = (
        f"{found.run.name} {'still' if now == before else 'now'} predicts "
        f"{found.run.classes[now]} ({percent(found.after[now])}%)."
    )
    tokens = "The class token" if len(found.special) == 1 else "No special token"
    cannot = "cannot attend" if len(found.special) == 1 else "can attend"
    title = f"{tokens} {cannot} to patches in {span(found)}"
    also = () if len(found.special) == 1 else (Text(special_words(found), quiet=True),)
    return [Text(verdict, told=True), Moved(title, rows), *also, Text(LIMIT, quiet=True)]


def span(found: KnockOut) -> str:
    first, last = found.layers[0] + 1, found.layers[-1] + 1
    if len(found.layers) == found.depth:
        return f"all {found.depth} layers"
    return f"layer {first}" if first == last else f"layers {first} to {last}"


def special_words(found: KnockOut) -> str:
    """Explain why other tokens are barred in addition to the class token."""
    others = ", ".join(found.special[1:6]) + (", …" if len(found.special) > 6 else "")
    return (
        f"The model has {len(found.special)} special tokens: the class token, and {others}. All of "
        "them are barred, because the class token could otherwise read the patches through them."
    )
