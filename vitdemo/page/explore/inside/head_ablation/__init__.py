"""The part "Head ablation": the effect of switching heads off.

The state `heads_off` lists the heads that are off, such as "3.1 4.2" (layer.head, from 1). The
payload of the grid contains the effect of each single head on the predicted class:

    {"run": str, "name": class, "change": (L, H), "probability": (L, H),
     "mean_source": str | None as in `AblationEffects`}

The payload of the comparison contains the heads that are off, and probabilities by class with all
heads and without them. `predicted` is the row of the predicted class without them:

    {"run": str, "heads": [[layer, head], ...], "rows": [[class, before, after], ...],
     "predicted": int}

Letters: L layers, H heads, C classes.
"""

import re
from collections.abc import Collection, Sequence

import gradio as gr
import numpy as np
import scipy

from vitdemo.analyses.head_ablation import (
    compute_head_effects,
    measure_accuracy_without_heads,
    predict_without_heads,
)
from vitdemo.context import AppContext
from vitdemo.errors import RunError
from vitdemo.explain.checks import require_attention, to_numpy
from vitdemo.explain.head_ablation import HeadIndex
from vitdemo.metrics import top_k_classes
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view, load_square, round_numbers
from vitdemo.page.feature import Feature, PageSetup, Report
from vitdemo.page.view_state import ViewState, needs

VIEW = "head_ablation"
COMPARISON_VIEW = "head_ablation.comparison"
ACCURACY_TASK = "head_ablation.accuracy"  # also the name of its view
MAX_CLASSES = 5  # number of classes in the comparison
EFFECT_DIGITS = 7  # decimals of a change: enough for equal rounding in the browser and in Python


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
    effects = compute_head_effects(context, run, image, state[keys.HEAD_REPLACEMENT])
    return {
        "run": run.name,
        "name": run.classes[effects.target],
        "change": round_numbers(effects.logit_change, EFFECT_DIGITS),
        "probability": round_numbers(effects.probability_change, EFFECT_DIGITS),
        "mean_source": effects.mean_source,
    }


@needs(keys.IMAGE, keys.MODEL, keys.HEAD_REPLACEMENT, keys.HEADS_OFF)
def comparison_payload(context: AppContext, state: ViewState) -> dict:
    image, run = load_square(context, state.image), context.find_run(state.model)
    run.require_classes()
    trace = context.trace_image(run, image)
    heads = parse_heads(state[keys.HEADS_OFF], *trace.attention.shape[:2])
    after = predict_without_heads(context, run, image, heads, state[keys.HEAD_REPLACEMENT])
    before = scipy.special.softmax(to_numpy(trace.logits))
    return {
        "run": run.name,
        "heads": number_heads(heads),
        **compare_predictions(run.classes, before, after),
    }


def measure_accuracy(context: AppContext, state: ViewState, report: Report) -> dict:
    """Measure the accuracy with all heads and without the heads that are off."""
    run = context.find_run(state.model)
    model = context.load_model(run)
    require_attention(run, model)
    heads = parse_heads(state[keys.HEADS_OFF], len(model.blocks), model.blocks[0].attn.num_heads)
    if not heads:
        raise RunError("No head is switched off. Switch off at least one head first.")
    for step in measure_accuracy_without_heads(context, run, heads, state[keys.HEAD_REPLACEMENT]):
        report(step.done, step.total, "Test images")
    return {
        "run": run.name,
        "heads": number_heads(heads),
        "images": step.test.n,
        "accuracies": [step.test.second_accuracy, step.test.first_accuracy],
        "change": step.test.difference,
        "interval": step.test.interval.tolist(),
    }


FEATURE = Feature(
    payloads={VIEW: payload, COMPARISON_VIEW: comparison_payload},
    tasks={ACCURACY_TASK: measure_accuracy},
)


def parse_heads(text: str, L: int, H: int) -> frozenset[HeadIndex]:
    """Parse heads such as "3.1 4.2" (layer.head, from 1); ignore heads that do not exist."""
    found = re.findall(r"(?<!\S)(\d{1,4})\.(\d{1,4})(?!\S)", text, re.ASCII)
    heads = ((int(layer) - 1, int(head) - 1) for layer, head in found)
    return frozenset(pair for pair in heads if 0 <= pair[0] < L and 0 <= pair[1] < H)


def number_heads(heads: Collection[HeadIndex]) -> list[list[int]]:
    """Return sorted [layer, head], both counted from 1."""
    return [[layer + 1, head + 1] for layer, head in sorted(heads)]


def compare_predictions(classes: Sequence[str], before: np.ndarray, after: np.ndarray) -> dict:
    """Return probabilities (C,) `before` and `after` an ablation, of the most probable classes.

    The rows are the most probable classes before the ablation, the most probable class first. The
    row `predicted` is the most probable class after the ablation.
    """
    shown = top_k_classes(before, MAX_CLASSES)[0].tolist()
    predicted = int(after.argmax())
    shown += [predicted] if predicted not in shown else []
    return {
        "rows": [[classes[c], float(before[c]), float(after[c])] for c in shown],
        "predicted": shown.index(predicted),
    }
