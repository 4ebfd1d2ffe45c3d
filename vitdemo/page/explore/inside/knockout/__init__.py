"""Attention knock-out: in some layers, the class token cannot attend to any patch.

The layers `FIRST_BLOCKED` to `LAST_BLOCKED` are blocked. If the last is before the first, as
initially, no layer is blocked. The payload:

    {"run": str, "layers": [first, last] or None, "depth": number of layers,
     "special_tokens": [names], "predicted": [class before, class after], "probability": of the
     class after, "rows": [[class, probability before, probability after], ...]}

or, without a result, {"problem": str}.
"""

import gradio as gr

from vitdemo.analyses.knockout import KNOCKOUT_FINDING, KnockoutResult, predict_with_knockout
from vitdemo.context import AppContext
from vitdemo.errors import RunError, VitdemoError
from vitdemo.metrics import top_k_classes
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view, load_square
from vitdemo.page.explore.tab import COMMON_DEPTH
from vitdemo.page.feature import Feature, PageSetup, ViewData
from vitdemo.page.gradio_patches import UncheckedSlider
from vitdemo.page.view_state import ViewState, needs

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


FEATURE = Feature({VIEW: payload})


def select_blocked_layers(first: int, last: int) -> range:
    """Return the blocked layers, from 0, for the layers `first` to `last`, from 1."""
    return range(first - 1, max(last, first - 1))


def describe_result(result: KnockoutResult) -> dict:
    """Compare the prediction and the most probable classes before and after the knock-out."""
    classes, layers = result.run.classes, result.layers
    before, now = int(result.before.argmax()), int(result.after.argmax())
    shown = top_k_classes(result.before, min(MAX_CLASSES, len(classes)))[0].tolist()
    shown += [] if now in shown else [now]
    return {
        "run": result.run.name,
        "layers": [layers[0] + 1, layers[-1] + 1] if layers else None,
        "depth": result.num_layers,
        "special_tokens": list(result.special_tokens),
        "predicted": [classes[before], classes[now]],
        "probability": float(result.after[now]),
        "rows": [[classes[c], float(result.before[c]), float(result.after[c])] for c in shown],
    }
