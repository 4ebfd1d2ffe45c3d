"""Attention knock-out: in some layers, the class token cannot attend to any patch.

The layers `first` to `last` are barred. If `last` < `first`, as initially, no layer is barred.
"""

from dataclasses import dataclass

import gradio as gr
from gradio.components import Component
from PIL import Image

from vitdemo.analyses.knockout import KNOCKOUT_FINDING, KnockoutResult, predict_with_knockout
from vitdemo.context import AppContext
from vitdemo.errors import RunError, VitdemoError
from vitdemo.metrics import percent_text, top_k_classes
from vitdemo.page.components.article import Document, DocumentBlock, Notice, ProbabilityChange, Text
from vitdemo.page.kit import UncheckedSlider

COMMON_DEPTH = 12  # layers of ViT-Tiny to ViT-Base
EMPTY_LAYER_RANGE = (1, 0)  # first and last
MAX_CLASSES = 5  # in the card; the new prediction is added if it is not one of them
KNOCKOUT_INTRO = (
    "**Attention knock-out.** In the chosen layers, the class token of the chosen model cannot "
    "attend to any patch. If the prediction stays the same, it does not depend on this "
    f"attention. {KNOCKOUT_FINDING}"
)
NO_LAYER_MESSAGE = "No layer is barred. Move the second slider to bar layers 1 to that layer."
KNOCKOUT_CAVEAT = (
    "The model was not trained with barred attention. This may cause part of the change."
)


@dataclass(frozen=True)
class KnockoutComponents:
    """Components of the attention knock-out."""

    first: gr.Slider
    last: gr.Slider
    result: Document

    @property
    def layers(self) -> list[Component]:
        return [self.first, self.last]

    @property
    def outputs(self) -> list[Component]:
        """Components that receive the values of `render_knockout`."""
        return [*self.layers, self.result]


def lay_out_knockout() -> KnockoutComponents:
    """Lay out the two sliders and the result next to them."""
    with gr.Row(elem_id="knockout"):
        with gr.Column(scale=1, min_width=300):
            gr.Markdown(KNOCKOUT_INTRO)
            with gr.Row():
                first = UncheckedSlider(
                    1,
                    COMMON_DEPTH,
                    EMPTY_LAYER_RANGE[0],
                    step=1,
                    label="First barred layer",
                    elem_id="barred-first",
                    min_width=140,
                )
                last = UncheckedSlider(
                    0,
                    COMMON_DEPTH,
                    EMPTY_LAYER_RANGE[1],
                    step=1,
                    label="Last barred layer (0: none)",
                    elem_id="barred-last",
                    min_width=140,
                )
        with gr.Column(scale=1, min_width=300):
            result = Document(elem_id="knockout-result", min_height=60)
    return KnockoutComponents(first, last, result)


def render_knockout(
    context: AppContext, name: str, image: Image.Image, first: float | None, last: float | None
) -> tuple:
    """Return the slider updates and the result of the knock-out for the changed image."""
    try:
        run = context.find_run(name)
        depth = context.count_layers(run)
        if not depth:
            raise RunError(f"'{run.name}' has no attention to bar. Choose a Vision Transformer.")
        found = predict_with_knockout(context, run, image, barred_layers(first, last, depth))
    except VitdemoError as error:
        locked = gr.update(maximum=COMMON_DEPTH, interactive=False)  # not an earlier model's range
        return locked, locked, [Notice(str(error))]
    return (
        update_layer_slider(first, 1, depth),
        update_layer_slider(last, 0, depth),
        knockout_blocks(found),
    )


def barred_layers(first: float | None, last: float | None, depth: int) -> range:
    """Return the barred layers, from 0; values out of range are clamped."""
    start, stop = clamp_layer_bound(first, 1, depth), clamp_layer_bound(last, 0, depth)
    return range(start - 1, max(stop, start - 1))


def clamp_layer_bound(value: float | None, low: int, top: int) -> int:
    return min(max(round(low if value is None else value), low), top)


def update_layer_slider(value: float | None, low: int, top: int) -> dict:
    """Return an update of a slider to the range `low`..`top`; a value in this range stays."""
    kept = clamp_layer_bound(value, low, top)
    moved = {} if kept == value else {"value": kept}
    return gr.update(maximum=top, interactive=True, **moved)


def knockout_blocks(found: KnockoutResult) -> list[DocumentBlock]:
    """Return a sentence and a card that compare the prediction before and after knock-out."""
    if not found.layers:
        return [Text(NO_LAYER_MESSAGE, told=True)]
    before, now = int(found.before.argmax()), int(found.after.argmax())
    shown = top_k_classes(found.before, min(MAX_CLASSES, len(found.run.classes)))[0].tolist()
    shown += [] if now in shown else [now]
    rows = [(found.run.classes[c], float(found.before[c]), float(found.after[c])) for c in shown]
    verdict = (
        f"{found.run.name} {'still' if now == before else 'now'} predicts "
        f"{found.run.classes[now]} ({percent_text(found.after[now])}%)."
    )
    tokens = "The class token" if len(found.special_tokens) == 1 else "No special token"
    cannot = "cannot attend" if len(found.special_tokens) == 1 else "can attend"
    title = f"{tokens} {cannot} to patches in {describe_layers(found)}"
    also = (
        ()
        if len(found.special_tokens) == 1
        else (Text(describe_special_tokens(found), quiet=True),)
    )
    return [
        Text(verdict, told=True),
        ProbabilityChange(title, rows),
        *also,
        Text(KNOCKOUT_CAVEAT, quiet=True),
    ]


def describe_layers(found: KnockoutResult) -> str:
    first, last = found.layers[0] + 1, found.layers[-1] + 1
    if len(found.layers) == found.num_layers:
        return f"all {found.num_layers} layers"
    return f"layer {first}" if first == last else f"layers {first} to {last}"


def describe_special_tokens(found: KnockoutResult) -> str:
    """Explain why all special tokens are barred, not only the class token."""
    others = ", ".join(found.special_tokens[1:6]) + (", …" if len(found.special_tokens) > 6 else "")
    return (
        f"The model has {len(found.special_tokens)} special tokens: the class token, and "
        f"{others}. All of "
        "them are barred, because the class token could otherwise read the patches through them."
    )
