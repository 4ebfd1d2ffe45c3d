"""The fold "Compare with other models" below the attention maps: the same settings for all models.

compute_side_by_side(context, ["vit-scratch", "resnet18"], image, depth=0.5, kind="attention")

The payload:

    {"maps": see `describe_map`, "problems": [message of each failed run, ...]}
"""

from collections.abc import Sequence
from dataclasses import dataclass

import gradio as gr
import numpy as np
from PIL import Image

from vitdemo.analyses.knockout import KNOCKOUT_FINDING
from vitdemo.context import AppContext, Prediction
from vitdemo.documents.payload import blocks_to_json
from vitdemo.errors import RunError, VitdemoError
from vitdemo.explain.attributions import METHODS, attribute
from vitdemo.metrics import top_k_classes
from vitdemo.models import get_family
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import (
    ImageFile,
    add_view,
    list_image_runs,
    load_square,
    round_numbers,
)
from vitdemo.page.components.run_choice import group_runs
from vitdemo.page.components.run_list import RunList
from vitdemo.page.feature import Feature, PageSetup, ViewData
from vitdemo.page.gradio_patches import UncheckedDropdown
from vitdemo.page.image_sources import get_truth_task
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import Run

VIEW, FOLD = "side_by_side", "side_fold"
MAX_CLASSES = 3  # maximum number of classes below a map
PROBABILITY_DIGITS = 6


@dataclass(frozen=True, eq=False)
class SideMap:
    """Map of one model: its `values` (rows, columns) and what they show.

    A map of attention belongs to a `layer`, and other maps to a class.
    """

    prediction: Prediction
    method: str
    values: np.ndarray
    layer: int | None = None
    num_layers: int | None = None
    reader: str = ""
    class_name: str | None = None


def build(setup: PageSetup) -> None:
    add_view(FOLD, elem_id="side-fold")
    found = setup.context.explainable_runs()
    first = [run.name for run in select_one_per_family(found)]
    with gr.Column(elem_id="side"):
        setup.controls.add(keys.SIDE_MODELS, RunList, group_runs(found), first)
        with gr.Row(elem_classes="vd-filters", elem_id="side-filters"):
            setup.controls.add(keys.SIDE_MAP, gr.Radio)
            setup.controls.add(keys.SIDE_DEPTH, gr.Slider)
            setup.controls.add(
                keys.SIDE_CLASS,
                UncheckedDropdown,
                [keys.PREDICTED_CLASS, *collect_class_names(found)],
                value=keys.PREDICTED_CLASS,
                filterable=True,
            )
        add_view(VIEW, elem_id="side-by-side")


@needs(keys.IMAGE, keys.SIDE_MODELS, keys.SIDE_MAP, keys.SIDE_DEPTH, keys.SIDE_CLASS)
def payload(context: AppContext, state: ViewState) -> ViewData:
    found = list_image_runs(context, state.image, context.explainable_runs)
    classes = [keys.PREDICTED_CLASS, *collect_class_names(found)]
    names, chosen = [run.name for run in found], state[keys.SIDE_MODELS]
    if get_truth_task(state.image):  # there is only one model, without a choice
        chosen = names
    target = state[keys.SIDE_CLASS]
    target = target if target in classes else keys.PREDICTED_CLASS
    maps, problems = compute_side_by_side(
        context,
        [name for name in names if name in chosen],
        load_square(context, state.image),
        depth=state[keys.SIDE_DEPTH] / 100,
        kind=state[keys.SIDE_MAP],
        target=None if target == keys.PREDICTED_CLASS else target,
    )
    return ViewData(
        {"maps": [describe_map(each) for each in maps], "problems": problems},
        {
            keys.SIDE_MODELS.name: {
                "props": {"groups": group_runs(found)},
                "value": [name for name in chosen if name in names],
            },
            keys.SIDE_CLASS.name: {"choices": [(name, name) for name in classes], "value": target},
        },
    )


FEATURE = Feature({VIEW: payload})


def describe_map(side_map: SideMap) -> dict:
    """Return a map with the model's input and its most probable classes."""
    prediction, method = side_map.prediction, METHODS[side_map.method]
    indices, values = top_k_classes(prediction.probabilities, MAX_CLASSES)
    return {
        "run": prediction.run.name,
        "method": side_map.method,
        "title": method.title,
        "signed": method.is_signed,
        "caption": KNOCKOUT_FINDING if side_map.method == "attention" else method.caption,
        "values": blocks_to_json(side_map.values, ImageFile),
        "seen": ImageFile(prediction.input_image),
        "layer": side_map.layer,
        "layers": side_map.num_layers,
        "reader": side_map.reader,
        "class": side_map.class_name,
        "classes": [prediction.run.classes[i] for i in indices],
        "probabilities": round_numbers(values, PROBABILITY_DIGITS),
    }


def collect_class_names(runs: Sequence[Run]) -> list[str]:
    """Return the class names of all runs without duplicates, in the order of the runs."""
    return list(dict.fromkeys(name for run in runs for name in run.classes))


def select_one_per_family(runs: Sequence[Run]) -> list[Run]:
    """Return the first run of each kind: ViT from scratch, pretrained ViT, convolutional model."""
    firsts: dict[tuple[bool, bool], Run] = {}
    for run in runs:
        family = get_family(run.spec)
        firsts.setdefault((not family.has_attention, family.is_third_party), run)
    return [firsts[kind] for kind in sorted(firsts)]


def layer_at_depth(depth: float, layers: int) -> int:
    """Return the layer (1..`layers`) at the relative `depth` (0 to 1)."""
    return min(max(round(depth * layers), 1), layers)


def compute_side_by_side(
    context: AppContext,
    names: Sequence[str],
    image: Image.Image,
    *,
    depth: float,
    kind: str,
    target: str | None = None,
) -> tuple[list[SideMap], list[str]]:
    """Return the map of each run of `names` on an RGB image, and a message for each failed run.

    Args:
        depth: relative depth of the layer in each model, 0 to 1.
        kind: a choice of `SIDE_MAP`. Convolutional models always get Grad-CAM.
        target: the class to explain; None explains the class that each model predicts.

    Raises `RunError` for an unknown kind.
    """
    if kind not in keys.SIDE_MAP.choices:
        kinds = ", ".join(keys.SIDE_MAP.choices)
        raise RunError(f"Unknown kind of map '{kind}': choose one of {kinds}.")
    maps, problems = [], []
    for name in names:
        try:
            maps.append(compute_map(context, context.find_run(name), image, depth, kind, target))
        except VitdemoError as error:
            problems.append(str(error))
    return maps, problems


def compute_map(
    context: AppContext, run: Run, image: Image.Image, depth: float, kind: str, target: str | None
) -> SideMap:
    if not context.count_layers(run):
        return compute_class_map(context, run, image, "grad_cam", target)
    if METHODS[kind].is_class_specific:
        return compute_class_map(context, run, image, kind, target)
    trace = context.trace_image(run, image)
    layer = layer_at_depth(depth, trace.num_layers)
    values = trace.plain_map("rollout" if kind == "rollout" else "mean", layer)
    prediction = context.predict(run, image)
    return SideMap(prediction, kind, values, layer, trace.num_layers, trace.reader_name)


def compute_class_map(
    context: AppContext, run: Run, image: Image.Image, method: str, target: str | None
) -> SideMap:
    prediction = context.predict(run, image)
    run.require_classes()
    if target is not None and target not in run.classes:
        raise RunError(f"'{run.name}' has no class '{target}'. Choose another class.")
    index = run.classes.index(target) if target else int(prediction.probabilities.argmax())
    _, pixels = context.prepare_input(run.preprocessing, image)
    values = attribute(method, context.load_model(run), pixels, index)[0]  # (rows, columns)
    values = values.float().cpu().numpy()
    return SideMap(prediction, method, values, class_name=run.classes[index])
