"""The part "Head ablation": the effect of switching heads off.

The state `off` lists the heads that are off, such as "3.1 4.2" (layer.head, from 1). The payload of
the grid contains the effect of each single head:

    {"run": str, "name": class, "change": (L, H), "probability": (L, H), "caption": str,
     "about": str}

Letters: L layers, H heads, C classes.
"""

import re
from collections.abc import Collection

import gradio as gr
import numpy as np
import scipy

from vitdemo.analyses.head_ablation import (
    AblationEffects,
    compute_head_effects,
    measure_accuracy_without_heads,
    predict_without_heads,
)
from vitdemo.context import AppContext
from vitdemo.documents import DocumentBlock, ProbabilityChange, Text
from vitdemo.errors import RunError
from vitdemo.explain.checks import require_attention, to_numpy
from vitdemo.explain.head_ablation import HeadIndex
from vitdemo.metrics import format_signed, percent_text, top_k_classes
from vitdemo.metrics.paired import McNemarResult
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view, document_payload, load_square, round_numbers
from vitdemo.page.feature import Feature, PageSetup, Report
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import Run

VIEW = "head_ablation"
COMPARISON_VIEW = "head_ablation.comparison"
ACCURACY_TASK = "head_ablation.accuracy"  # also the name of its view
EFFECT_DIGITS = 7  # decimals of a change: enough for equal rounding in the browser and in Python
EFFECTS_CAPTION = (
    "Change of the logit of {name} if only this head is switched off. Orange heads support the "
    "class, purple heads oppose it."
)
ABOUT_EFFECTS = (
    "A head without an effect may still be important, because other heads can compensate for it. "
    "{replacement}"
)
ZERO_ABLATION_CAPTION = (
    "The output of a head that is off is replaced by zeros. Zero ablation also removes the part "
    "of the output that is the same for every image."
)
MEAN_ABLATION_CAPTION = (
    "The output of a head that is off is replaced by its mean over {of}. Mean ablation removes "
    "only the part of the output that depends on the image."
)
NO_HEAD_OFF_MESSAGE = "Click heads to switch them off; click again to switch them on."


def build(setup: PageSetup) -> None:
    setup.controls.add(keys.HEAD_REPLACEMENT, gr.Radio)
    with gr.Row():
        with gr.Column(scale=3, min_width=300):
            add_view(VIEW, elem_id="head-effects")
        with gr.Column(scale=2, min_width=300):
            add_view(COMPARISON_VIEW, elem_id="without")
            add_view(ACCURACY_TASK, elem_id="accuracy-without")


@needs(keys.IMAGE, keys.MODEL, keys.HEAD_REPLACEMENT)
def payload(context: AppContext, state: ViewState) -> dict:
    image, run = load_square(context, state.image), context.find_run(state.model)
    return to_payload(compute_head_effects(context, run, image, state[keys.HEAD_REPLACEMENT]))


def to_payload(effects: AblationEffects) -> dict:
    return {
        "run": effects.run.name,
        "name": effects.run.classes[effects.target],
        "change": round_numbers(effects.logit_change, EFFECT_DIGITS),
        "probability": round_numbers(effects.probability_change, EFFECT_DIGITS),
        "caption": EFFECTS_CAPTION.format(name=effects.run.classes[effects.target]),
        "about": describe_replacement(effects),
    }


@needs(keys.IMAGE, keys.MODEL, keys.HEAD_REPLACEMENT, keys.HEADS_OFF)
def comparison_payload(context: AppContext, state: ViewState) -> list:
    image, run = load_square(context, state.image), context.find_run(state.model)
    run.require_classes()
    trace = context.trace_image(run, image)
    heads = parse_heads(state[keys.HEADS_OFF], *trace.attention.shape[:2])
    without = predict_without_heads(context, run, image, heads, state[keys.HEAD_REPLACEMENT])
    all_on = scipy.special.softmax(to_numpy(trace.logits))
    return document_payload(comparison_blocks(run, all_on, without, heads))


def measure_accuracy(context: AppContext, state: ViewState, report: Report) -> str:
    """Measure the accuracy without the heads that are off, and describe it."""
    run = context.find_run(state.model)
    model = context.load_model(run)
    require_attention(run, model)
    heads = parse_heads(state[keys.HEADS_OFF], len(model.blocks), model.blocks[0].attn.num_heads)
    if not heads:
        raise RunError("No head is switched off. Switch off at least one head first.")
    for step in measure_accuracy_without_heads(context, run, heads, state[keys.HEAD_REPLACEMENT]):
        report(step.done, step.total, "Test images")
    return describe_accuracy_change(run.name, step.test, heads)


FEATURE = Feature(
    payloads={VIEW: payload, COMPARISON_VIEW: comparison_payload},
    tasks={ACCURACY_TASK: measure_accuracy},
)


def parse_heads(text: str, L: int, H: int) -> frozenset[HeadIndex]:
    """Parse heads such as "3.1 4.2" (layer.head, from 1); ignore heads that do not exist."""
    found = re.findall(r"(?<!\S)(\d{1,4})\.(\d{1,4})(?!\S)", text, re.ASCII)
    heads = ((int(layer) - 1, int(head) - 1) for layer, head in found)
    return frozenset(pair for pair in heads if 0 <= pair[0] < L and 0 <= pair[1] < H)


def describe_replacement(effects: AblationEffects) -> str:
    """Return the limits of the effects, with the replacement of a head's output."""
    mean = MEAN_ABLATION_CAPTION.format(of=effects.mean_source)
    return ABOUT_EFFECTS.format(replacement=mean if effects.mean_source else ZERO_ABLATION_CAPTION)


def comparison_blocks(
    run: Run, all_on: np.ndarray, without: np.ndarray, heads: Collection[HeadIndex]
) -> list[DocumentBlock]:
    """Compare the five most probable classes (C,) with all heads and without `heads`."""
    shown, _ = top_k_classes(all_on, min(5, len(run.classes)))
    before, now = int(all_on.argmax()), int(without.argmax())
    shown = [*shown, *([now] if now not in shown else [])]  # include the new prediction
    rows = [(run.classes[c], float(all_on[c]), float(without[c])) for c in shown]
    verdict, title = NO_HEAD_OFF_MESSAGE, "All heads are on"
    if heads:
        verdict = (
            f"{run.name} {'still' if now == before else 'now'} predicts {run.classes[now]} "
            f"({percent_text(without[now])}%; with all heads {percent_text(all_on[now])}%)."
        )
        title = f"Without {list_heads(heads)}"
    change = ProbabilityChange(title, rows, ("all heads", "without"))
    return [Text(verdict, told=True), change]


def list_heads(heads: Collection[HeadIndex]) -> str:
    words = ", ".join(f"layer {layer + 1} head {head + 1}" for layer, head in sorted(heads)[:6])
    return words + (f" and {len(heads) - 6} more" if len(heads) > 6 else "")


def describe_accuracy_change(name: str, test: McNemarResult, heads: Collection[HeadIndex]) -> str:
    """Describe the accuracy with all heads and without `heads`, and the significance of the change.

    The text contains model and heads, because the user may have made other choices since.
    """
    change, low, high = 100 * test.difference, *(100 * test.interval)
    if low <= 0 <= high:
        verdict = "The interval contains 0: the change is not significant."
    else:
        verdict = f"The interval excludes 0: the {'loss' if change < 0 else 'gain'} is significant."
    span = f"{format_signed(low)} to {format_signed(high)}"
    return (
        f"{name}, accuracy on {test.n:,} test images: "
        f"**{percent_text(test.second_accuracy)}%** with "
        f"all heads, **{percent_text(test.first_accuracy)}%** without {list_heads(heads)}. Change: "
        f"{format_signed(change)} percentage points, 95% confidence interval {span}. {verdict}"
    )
