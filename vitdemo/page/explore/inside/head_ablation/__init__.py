"""The part "Head ablation": the effect of switching heads off.

The state `heads_off` lists the heads that are off, such as "3.1 4.2" (layer.head, from 1). The
payload of the grid contains the effect of each single head on the predicted class:

    {"run": str, "name": class, "change": (L, H), "probability": (L, H),
     "mean_source": str | None as in `AblationEffects`}

The payload of the comparison contains the heads that are off, and the fields of
`prediction_change` for the prediction with all heads and without them:

    {"run": str, "heads": [[layer, head], ...], ...}

Letters: L layers, H heads, C classes.
"""

import re
from collections.abc import Collection

import gradio as gr
import scipy
import torch
from torch import Tensor

from vitdemo.analyses.head_ablation import (
    compute_head_effects,
    compute_photo_outputs,
    describe_photo_means,
    measure_accuracy_without_heads,
    predict_without_heads,
)
from vitdemo.context import AppContext
from vitdemo.errors import RunError
from vitdemo.explain.checks import require_attention, to_numpy
from vitdemo.explain.forward_pass import trace
from vitdemo.explain.head_ablation import (
    HeadIndex,
    HeadMeans,
    ablate_each_head,
    compute_masked_logits,
)
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view, fill, load_square, round_numbers
from vitdemo.page.explore.prediction_change import compare_predictions
from vitdemo.page.feature import Feature, PageSetup, Report
from vitdemo.page.graph import (
    PHOTO,
    Choice,
    Constant,
    Graph,
    Numbers,
    Output,
    Outputs,
    Positions,
    make_heads_input,
)
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import Run

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
    found = context.trace_image(run, image)
    heads = parse_heads(state[keys.HEADS_OFF], *found.attention.shape[:2])
    after = predict_without_heads(context, run, image, heads, state[keys.HEAD_REPLACEMENT])
    before = scipy.special.softmax(to_numpy(found.logits))
    data = {"run": run.name, "heads": number_heads(heads)}
    tensors = map(torch.from_numpy, (before, after))
    return fill(data, compare_predictions(run.classes, *tensors, MAX_CLASSES, 1))


def compute_effects(
    context: AppContext, run: Run, state: ViewState, crop: Tensor, photo: Tensor
) -> Outputs:
    """Compute the grid: see `page.graph`. `photo` () is the example photo, or -1.

    Means are those of `select_photo_means`. Raises `VitdemoError`.
    """
    run.require_classes()
    model, images = context.load_model(run), run.preprocessing(crop[None])
    require_attention(run, model)
    means, source = select_photo_means(context, run, state[keys.HEAD_REPLACEMENT], photo)
    found = trace(model, images)
    ablated = ablate_each_head(model, found.tokens, means)[:, :, 0]  # (L, H, C)
    logits = found.logits[0]
    predicted = logits.argmax()
    change, probability = (
        each.index_select(-1, predicted[None])[..., 0]
        for each in (ablated - logits, ablated.softmax(-1) - logits.softmax(-1))
    )
    return {
        "name": Choice(predicted, run.classes),
        "change": Numbers(change, EFFECT_DIGITS),
        "probability": Numbers(probability, EFFECT_DIGITS),
        "mean_source": source,
    }


def compute_comparison(
    context: AppContext, run: Run, state: ViewState, crop: Tensor, photo: Tensor, off: Tensor
) -> Outputs:
    """Compute the comparison without the heads `off` (L, H): see `compute_effects`."""
    run.require_classes()
    model, images = context.load_model(run), run.preprocessing(crop[None])
    require_attention(run, model)
    means, _ = select_photo_means(context, run, state[keys.HEAD_REPLACEMENT], photo)
    logits = compute_masked_logits(model, images, [*~off], means)
    before, after = (each[0].float().softmax(0) for each in (model(images), logits))
    return {
        "heads": Positions(off),
        **compare_predictions(run.classes, before, after, MAX_CLASSES, 1),
    }


def select_photo_means(
    context: AppContext, run: Run, mode: str, photo: Tensor
) -> tuple[HeadMeans | None, Output]:
    """Return the mean outputs of heads over all example photos but `photo`, and their description.

    Both are None for zero ablation. `photo` () is an index, or -1 for another image. The outputs
    for each photo have the precision of float16.
    """
    if mode == "zero":
        return None, Constant(None)
    outputs = context.cache.get_or_compute(  # L of (n, H, N, D/H)
        (select_photo_means, run),
        lambda: [each.half().float() for each in compute_photo_outputs(context, run)],
    )
    count = len(outputs[0])
    weights = (torch.arange(count) != photo).float()
    weights = weights / weights.sum()  # (n,)
    texts = [describe_photo_means(number) for number in (count, count - 1)]
    means = [(weights[:, None, None, None] * each).sum(0) for each in outputs]
    return means, Choice((photo >= 0).long(), texts)


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


INPUTS = [PHOTO, make_heads_input(keys.HEADS_OFF)]
FEATURE = Feature(
    payloads={VIEW: payload, COMPARISON_VIEW: comparison_payload},
    graphs={
        VIEW: Graph(compute_effects, inputs=[PHOTO]),
        COMPARISON_VIEW: Graph(
            compute_comparison, inputs=[PHOTO, make_heads_input(keys.HEADS_OFF)]
        ),
    },
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
