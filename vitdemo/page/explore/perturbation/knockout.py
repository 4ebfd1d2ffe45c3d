"""Attention knock-out: in some layers, the class token cannot attend to any patch.

The layers `FIRST_BLOCKED` to `LAST_BLOCKED` are blocked. If the last is before the first, as
initially, no layer is blocked.
"""

import gradio as gr

from vitdemo.analyses.knockout import KNOCKOUT_FINDING, KnockoutResult, predict_with_knockout
from vitdemo.context import AppContext
from vitdemo.documents import DocumentBlock, Notice, ProbabilityChange, Text
from vitdemo.errors import RunError, VitdemoError
from vitdemo.metrics import percent_text, top_k_classes
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view, document_payload
from vitdemo.page.explore.perturbation.image import load_images, parse_changes
from vitdemo.page.explore.tab import COMMON_DEPTH
from vitdemo.page.feature import Feature, PageSetup, ViewData
from vitdemo.page.gradio_patches import UncheckedSlider
from vitdemo.page.view_state import ViewState, needs

VIEW = "knockout"
LAYER_RANGE = (keys.FIRST_BLOCKED, keys.LAST_BLOCKED)
MAX_CLASSES = 5  # maximum number of classes in the card, without a new predicted class
KNOCKOUT_INTRO = (
    "In the chosen layers, the class token cannot attend to any patch. If the prediction does not "
    "change, it does not need this attention. Other layers may supply the same information. "
    f"{KNOCKOUT_FINDING}"
)
NO_LAYER_MESSAGE = (
    "No layer is blocked. Move the second slider to block all layers up to the chosen layer."
)
KNOCKOUT_CAVEAT = (
    "The model was not trained with blocked attention, so this mismatch may cause part of the "
    "change."
)


def build(setup: PageSetup) -> None:
    """Lay out the two sliders and the result below them."""
    with gr.Column(elem_id="knockout"):
        gr.Markdown(KNOCKOUT_INTRO)
        with gr.Row():
            for key in LAYER_RANGE:
                setup.controls.add(key, UncheckedSlider, maximum=COMMON_DEPTH, min_width=140)
        add_view(VIEW, elem_id="knockout-result")


@needs(*keys.CHANGES, keys.MODEL, keys.REMOVED_PATCHES, *LAYER_RANGE)
def payload(context: AppContext, state: ViewState) -> ViewData:
    """Return the document of the knock-out for the changed image, and updates of the sliders."""
    _, image = load_images(context, state, parse_changes(context, state))
    try:
        run = context.find_run(state.model)
        depth = context.count_layers(run)
        if not depth:
            raise RunError(f"'{run.name}' has no attention to block. Choose a Vision Transformer.")
        first, last = (min(round(state[key]), depth) for key in LAYER_RANGE)
        found = predict_with_knockout(context, run, image, select_blocked_layers(first, last))
    except VitdemoError as error:
        locked = {"maximum": COMMON_DEPTH, "interactive": False}  # reset the range
        names = [key.name for key in LAYER_RANGE]
        return ViewData(document_payload([Notice(str(error))]), dict.fromkeys(names, locked))
    sliders = {
        key.name: {"maximum": depth, "interactive": True, "value": value}
        for key, value in zip(LAYER_RANGE, (first, last), strict=True)
    }
    return ViewData(document_payload(knockout_blocks(found)), sliders)


FEATURE = Feature({VIEW: payload})


def select_blocked_layers(first: int, last: int) -> range:
    """Return the blocked layers, from 0, for the layers `first` to `last`, from 1."""
    return range(first - 1, max(last, first - 1))


def knockout_blocks(result: KnockoutResult) -> list[DocumentBlock]:
    """Return a sentence and a card that compare the prediction before and after knock-out."""
    if not result.layers:
        return [Text(NO_LAYER_MESSAGE, told=True)]
    before, now = int(result.before.argmax()), int(result.after.argmax())
    shown = top_k_classes(result.before, min(MAX_CLASSES, len(result.run.classes)))[0].tolist()
    shown += [] if now in shown else [now]
    rows = [(result.run.classes[c], float(result.before[c]), float(result.after[c])) for c in shown]
    verdict = (
        f"{result.run.name} {'still' if now == before else 'now'} predicts "
        f"{result.run.classes[now]} ({percent_text(result.after[now])}%)."
    )
    if len(result.special_tokens) == 1:
        subject, remarks = "The class token cannot attend", [KNOCKOUT_CAVEAT]
    else:
        subject = "No special token can attend"
        remarks = [describe_special_tokens(result), KNOCKOUT_CAVEAT]
    return [
        Text(verdict, told=True),
        ProbabilityChange(f"{subject} to patches in {describe_layers(result)}", rows),
        *(Text(remark, quiet=True) for remark in remarks),
    ]


def describe_layers(result: KnockoutResult) -> str:
    first, last = result.layers[0] + 1, result.layers[-1] + 1
    if len(result.layers) == result.num_layers:
        return f"all {result.num_layers} layers"
    return f"layer {first}" if first == last else f"layers {first} to {last}"


def describe_special_tokens(result: KnockoutResult) -> str:
    """Explain why all special tokens are blocked, not only the class token."""
    others = ", ".join(result.special_tokens[1:6]) + (
        ", …" if len(result.special_tokens) > 6 else ""
    )
    return (
        f"The model has {len(result.special_tokens)} special tokens: the class token, and "
        f"{others}. The attention of all special tokens to patches is blocked. Otherwise, the "
        "class token could receive information from patches through the other special tokens."
    )
