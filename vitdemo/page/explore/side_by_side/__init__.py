"""The section "Side by side" of the Explore tab: one image, several models, the same settings.

compute_side_by_side(context, ["vit-scratch", "resnet18"], image, depth=0.5, kind="attention")

The payload is a document of one `MapRow`, and of the captions of its maps.
"""

from collections.abc import Sequence
from dataclasses import replace

import gradio as gr
import numpy as np
from PIL import Image

from vitdemo.analyses.knockout import KNOCKOUT_FINDING
from vitdemo.context import AppContext, Prediction
from vitdemo.documents import Details, DocumentBlock, Notice, Text
from vitdemo.documents.maps import MapPanel, MapRow
from vitdemo.errors import RunError, VitdemoError
from vitdemo.explain.attributions import METHODS, attribute
from vitdemo.metrics import top_k_classes
from vitdemo.models import get_family
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import add_view, document_payload, load_square
from vitdemo.page.components.run_choice import group_runs
from vitdemo.page.components.run_list import RunList
from vitdemo.page.feature import Feature, PageSetup, ViewData
from vitdemo.page.gradio_patches import UncheckedDropdown
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import Run

VIEW = "side_by_side"
NO_MODEL = "Choose a model above."
ABOUT_MAPS = (
    "A relative depth of 100% is the last layer of each model. Convolutional models have no "
    "attention and are shown with Grad-CAM, which depends on the class. Each map is scaled to its "
    "own maximum, so compare colours within a map, not between models."
)


def build(setup: PageSetup) -> None:
    found = setup.context.explainable_runs()
    first = [run.name for run in select_one_per_family(found)]
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
    found = context.explainable_runs()
    classes = [keys.PREDICTED_CLASS, *collect_class_names(found)]
    names, chosen = [run.name for run in found], state[keys.SIDE_MODELS]
    target = state[keys.SIDE_CLASS]
    target = target if target in classes else keys.PREDICTED_CLASS
    panels, problems = compute_side_by_side(
        context,
        [name for name in names if name in chosen],
        load_square(context, state.image),
        depth=state[keys.SIDE_DEPTH] / 100,
        kind=state[keys.SIDE_MAP],
        target=None if target == keys.PREDICTED_CLASS else target,
    )
    return ViewData(
        document_payload(describe_maps(panels, " ".join(problems))),
        {
            keys.SIDE_MODELS.name: {
                "props": {"groups": group_runs(found)},
                "value": [name for name in chosen if name in names],
            },
            keys.SIDE_CLASS.name: {"choices": [(name, name) for name in classes], "value": target},
        },
    )


FEATURE = Feature({VIEW: payload})


def describe_maps(panels: Sequence[MapPanel], sentence: str) -> list[DocumentBlock]:
    """Return the row of maps, and a fold with their captions without duplicates."""
    if not panels:
        return [Notice(sentence or NO_MODEL)]
    captions = dict.fromkeys(panel.caption for panel in panels)
    about = [Text(words, quiet=True) for words in (ABOUT_MAPS, *captions)]
    plain = [replace(panel, caption="") for panel in panels]
    return [MapRow(plain, sentence=sentence), Details("About", about)]


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
) -> tuple[list[MapPanel], list[str]]:
    """Return a panel for each run of `names` on an RGB image, and a message for each failed run.

    Args:
        depth: relative depth of the layer in each model, 0 to 1.
        kind: a choice of `SIDE_MAP`. Convolutional models always get Grad-CAM.
        target: the class to explain; None explains the class that each model predicts.

    Raises `RunError` for an unknown kind.
    """
    if kind not in keys.SIDE_MAP.choices:
        kinds = ", ".join(keys.SIDE_MAP.choices)
        raise RunError(f"Unknown kind of map '{kind}': choose one of {kinds}.")
    panels, problems = [], []
    for name in names:
        try:
            panels.append(
                _attention_panel(context, context.find_run(name), image, depth, kind, target)
            )
        except VitdemoError as error:
            problems.append(str(error))
    return panels, problems


def _attention_panel(
    context: AppContext, run: Run, image: Image.Image, depth: float, kind: str, target: str | None
) -> MapPanel:
    answer = context.predict(run, image)
    if not context.count_layers(run):
        return _class_panel(context, answer, image, "grad_cam", target)
    if kind == "relevance":
        return _class_panel(context, answer, image, kind, target)
    look = context.trace_image(run, image)
    layer = layer_at_depth(depth, look.num_layers)
    if kind == "rollout":
        values = look.rollout_map(layer, fusion="mean", discard_ratio=0.0)
        title = f"Rollout, layers 1 to {layer} of {look.num_layers}"
        return make_map_panel(answer, values, title, METHODS["rollout"].caption)
    caption = (
        f"Attention of {look.reader_name} to each patch in this layer (mean of the heads). "
        f"{KNOCKOUT_FINDING} The map is the same for every class."
    )
    title = f"Attention, layer {layer} of {look.num_layers}"
    return make_map_panel(answer, look.head_maps(layer).mean(0), title, caption)


def _class_panel(
    context: AppContext, answer: Prediction, image: Image.Image, method: str, target: str | None
) -> MapPanel:
    run = answer.run
    run.require_classes()
    if target is not None and target not in run.classes:
        raise RunError(f"'{run.name}' has no class '{target}'. Choose another class.")
    index = run.classes.index(target) if target else int(answer.probabilities.argmax())
    _, pixels = context.prepare_input(run.preprocessing, image)
    values = attribute(method, context.load_model(run), pixels, index)[0]  # (rows, columns)
    title = f"{METHODS[method].title} for {run.classes[index]}"
    drawn = make_map_panel(answer, values.float().cpu().numpy(), title, METHODS[method].caption)
    return replace(drawn, fraction=False)


def make_map_panel(answer: Prediction, values: np.ndarray, title: str, caption: str) -> MapPanel:
    """Return the panel of one map, with the model's most probable classes."""
    run, (indices, shares) = answer.run, top_k_classes(answer.probabilities, 3)
    likely = ", ".join(
        f"{run.classes[i]} {100 * p:.1f}%" for i, p in zip(indices, shares, strict=True)
    )
    return MapPanel(
        title,
        values,
        answer.input_image,
        f"{run.name}: {title}",
        head=run.name,
        lines=[likely or "no classes (no classifier with known labels)"],
        caption=caption,
    )
