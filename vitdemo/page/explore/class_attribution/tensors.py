"""The tensors of the attribution maps of a class; no values are read, see `page.graph`.

The results of the faithfulness test are left out. The slow maps are loops.
"""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from vitdemo.analyses.class_attribution import (
    ATTENTION,
    list_fast_methods,
    list_ranked_methods,
    load_summaries,
)
from vitdemo.context import AppContext
from vitdemo.explain import faithfulness
from vitdemo.explain.attributions import AttributionMethod
from vitdemo.explain.attributions.method import AttributionInput
from vitdemo.page import state_keys as keys
from vitdemo.page.explore.class_attribution.blocks import PROBABILITY_DIGITS, describe_method
from vitdemo.page.graph import (
    Choice,
    Constant,
    Graph,
    Inserted,
    Loop,
    Numbers,
    Outputs,
    Pixels,
    hide,
    make_class_input,
    make_layer_input,
    select_layer,
)
from vitdemo.page.view_state import ViewState
from vitdemo.runs import Run

VALUE_DIGITS = 9


def compute_outputs(
    context: AppContext, run: Run, state: ViewState, crop: Tensor, target: Tensor, layer: Tensor
) -> tuple[Outputs, Outputs]:
    """Compute the fast maps of the class `target` () of `run`; -1 is the predicted class.

    `layer` () is the layer of the attention map; 0 is the initial layer. Raises `VitdemoError`.
    """
    run.require_classes()
    model, images = context.load_model(run), run.preprocessing(crop[None])
    probabilities = model(images)[0].float().softmax(0)[: len(run.classes)]  # (C,)
    predicted = probabilities.argmax()
    chosen = torch.where(target < 0, predicted, target)  # ()
    outputs: Outputs = {
        "target": Choice(chosen, run.classes),
        "probabilities": Numbers(probabilities.index_select(0, chosen[None]), PROBABILITY_DIGITS),
        "seen": Pixels(crop),
        "scores": Constant(None),
        "is_untested": Constant(True),
    }
    methods = list_fast_methods(context, run)
    outputs["first"] = Constant(methods[0].name)
    subject = AttributionInput.create(model, images, chosen[None])
    subject.needs_gradients = True
    for i, method in enumerate(methods):
        values = method.compute(subject).detach()[0]
        if method.name == ATTENTION:
            shown = select_layer(context, run, layer)
            mean = subject.attention[:, 0].mean(1)  # (L, N, N)
            values = subject.to_patch_maps(mean.index_select(0, shown[None] - 1))[0]
            titles = [f"Attention, layer {i + 1}" for i in range(len(mean))]
            outputs[f"maps.{i}.title"] = Choice(shown - 1, titles)
        outputs[f"maps.{i}.values"] = Numbers(values, VALUE_DIGITS)
    first = [f"predicted class ({name})" for name in run.classes]
    controls: Outputs = {
        f"{keys.EXPLAINED_CLASS.name}.choices.0.0": Choice(predicted, first),
        f"{keys.EXPLAINED_CLASS.name}.value": Choice(target + 1, ["", *run.classes]),
    }
    return outputs, controls


GRAPH = Graph(
    compute_outputs,
    inputs=[make_class_input(keys.EXPLAINED_CLASS), make_layer_input(keys.LAYER)],
)


def compute_start(
    method: AttributionMethod,
    context: AppContext,
    run: Run,
    state: ViewState,
    crop: Tensor,
    target: Tensor,
) -> Outputs:
    """Compute the class to explain, and the values before the first step of the slow `method`."""
    model, images = context.load_model(run), run.preprocessing(crop[None])
    predicted = model(images)[0, : len(run.classes)].argmax()
    chosen = torch.where(target < 0, predicted, target)[None]  # (1,)
    subject = AttributionInput.create(model, images, chosen)
    return hide({"class": chosen, **method.loop.start(subject)})


def compute_step(
    method: AttributionMethod,
    place: str,
    changes: Outputs,
    context: AppContext,
    run: Run,
    state: ViewState,
    crop: Tensor,
    target: Tensor,
    values: Mapping[str, Tensor],
) -> Outputs:
    """Compute a step of the slow `method`.

    `place` is the path of the map in the view's data, and `changes` are the changes of these data
    that do not depend on the image.
    """
    model, images = context.load_model(run), run.preprocessing(crop[None])
    subject = AttributionInput.create(model, images, values["class"])
    found = {**values, **method.loop.step(subject, values)}
    return hide(found) | changes | {f"{place}.values": Numbers(found["map"], VALUE_DIGITS)}


def make_loops(view: str, context: AppContext, run: Run) -> list[Loop]:
    """Return the slow maps of `run` as loops, in the order in which `view` shows them."""
    run.require_classes()
    methods = list_ranked_methods(context, run)
    slow = [method for method in methods if method.is_slow]
    fills = faithfulness.supported_fills(context.load_model(run))
    summary = load_summaries(context, run).get(fills[0])
    loops = []
    for method in slow:
        described = describe_method(method, method.is_signed, summary.best if summary else ())
        place = f"maps.{methods.index(method)}"
        changes: Outputs = {
            place: Inserted(described),
            "has_slow": Constant(method is not slow[-1]),
            "is_untested": Constant(True),
        }
        inputs = [make_class_input(keys.EXPLAINED_CLASS)]
        start = Graph(partial(compute_start, method), inputs=inputs)
        step = Graph(partial(compute_step, method, place, changes), inputs=inputs)
        loops.append(Loop(f"Computing {method.title}", start, step, view))
    return loops
