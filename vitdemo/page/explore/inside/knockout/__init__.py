"""Attention knock-out: in some layers, the class token cannot attend to any patch.

The layers `FIRST_BLOCKED` to `LAST_BLOCKED` are blocked. If the last is before the first, as
initially, no layer is blocked. The payload:

    {"run": str, "layers": [first, last] or [], "depth": number of layers,
     "special_tokens": [names], and the fields of `prediction_change`}

or, without a result, {"problem": str}.
"""

import gradio as gr
import torch
from torch import Tensor

from vitdemo.analyses.knockout import KNOCKOUT_FINDING, KnockoutResult, predict_with_knockout
from vitdemo.context import AppContext
from vitdemo.errors import RunError, VitdemoError
from vitdemo.explain.checks import require_attention
from vitdemo.explain.knockout import build_patch_knockout, compute_knockout_logits
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view, fill, load_square
from vitdemo.page.explore.prediction_change import compare_predictions
from vitdemo.page.explore.tab import COMMON_DEPTH
from vitdemo.page.feature import Feature, PageSetup, ViewData
from vitdemo.page.gradio_patches import UncheckedSlider
from vitdemo.page.graph import Graph, Numbers, Outputs, make_number_input
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import Run

VIEW = "knockout"
LAYER_RANGE = (keys.FIRST_BLOCKED, keys.LAST_BLOCKED)
MAX_CLASSES = 5  # maximum number of classes in the card, without a new predicted class
KNOCKOUT_INTRO = (
    "**Attention knock-out.** In the chosen layers, the class token cannot attend to any patch. If "
    "the prediction does not change, it does not need this attention. Other layers may supply the "
    f"same information. {KNOCKOUT_FINDING}"
)


def build(setup: PageSetup) -> None:
    """Lay out the two sliders and the result below them."""
    with gr.Column(elem_id="knockout"):
        gr.Markdown(KNOCKOUT_INTRO)
        with gr.Row():
            for key in LAYER_RANGE:
                setup.controls.add(key, UncheckedSlider, maximum=COMMON_DEPTH, min_width=140)
        add_view(VIEW, elem_id="knockout-result")


@needs(keys.IMAGE, keys.MODEL, *LAYER_RANGE)
def payload(context: AppContext, state: ViewState) -> ViewData:
    """Return the document of the knock-out, and updates of the sliders."""
    image = load_square(context, state.image)
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
        return ViewData({"problem": str(error)}, dict.fromkeys(names, locked))
    sliders = {
        key.name: {"maximum": depth, "interactive": True, "value": value}
        for key, value in zip(LAYER_RANGE, (first, last), strict=True)
    }
    return ViewData(describe_result(found), sliders)


def select_blocked_layers(first: int, last: int) -> range:
    """Return the blocked layers, from 0, for the layers `first` to `last`, from 1."""
    return range(first - 1, max(last, first - 1))


def describe_result(result: KnockoutResult) -> dict:
    """Compare the prediction and the most probable classes before and after the knock-out."""
    layers = result.layers
    data = {
        "run": result.run.name,
        "layers": [layers[0] + 1, layers[-1] + 1] if layers else [],
        "depth": result.num_layers,
        "special_tokens": list(result.special_tokens),
    }
    before, after = map(torch.from_numpy, (result.before, result.after))
    return fill(data, compare_predictions(result.run.classes, before, after, MAX_CLASSES, 1))


def compute_outputs(
    context: AppContext,
    run: Run,
    state: ViewState,
    crop: Tensor,
    first_blocked: Tensor,
    last_blocked: Tensor,
) -> tuple[Outputs, Outputs]:
    """Compute the data that depend on image and sliders: see `page.graph`. Raises `RunError`."""
    run.require_classes()
    model, images = context.load_model(run), run.preprocessing(crop[None])
    require_attention(run, model)
    depth = len(model.blocks)
    try:
        all_blocked = build_patch_knockout(model, range(depth))  # (L, N, N)
    except ValueError as error:
        raise RunError(f"'{run.name}': {error}") from error
    first, last = (each.round().clamp(max=depth) for each in (first_blocked, last_blocked))
    layers = torch.arange(1, depth + 1)
    is_blocked = (layers >= first) & (layers <= last)  # (L,)
    after = compute_knockout_logits(model, images, all_blocked & is_blocked[:, None, None])
    before, after = (each[0].softmax(0) for each in (model(images).float(), after))
    ends = torch.stack([first, last]).masked_fill(last < first, torch.nan)
    outputs = {"layers": Numbers(ends)}
    outputs |= compare_predictions(run.classes, before, after, MAX_CLASSES, 1)
    sliders = zip(LAYER_RANGE, (first, last), strict=True)
    return outputs, {f"{key.name}.value": Numbers(value) for key, value in sliders}


INPUTS = [make_number_input(key, key.start) for key in LAYER_RANGE]
FEATURE = Feature({VIEW: payload}, graphs={VIEW: Graph(compute_outputs, inputs=INPUTS)})
