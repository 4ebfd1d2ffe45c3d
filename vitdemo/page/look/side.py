"""The section "Side by side" of the Explore tab: one image, several models, the same settings.

side_by_side(workbench, ["vit-scratch", "resnet18"], image, depth=0.5, kind="attention")
"""

from collections.abc import Sequence
from dataclasses import replace

import gradio as gr
import numpy as np
from PIL import Image

from vitdemo.attributions import METHODS, attribute, kind_of
from vitdemo.errors import RunError, VitdemoError
from vitdemo.inside.knockout import FINDING
from vitdemo.metrics import top_k
from vitdemo.models import CONVOLUTIONAL
from vitdemo.page.components.maps import MapRow, Maps, Panel
from vitdemo.page.components.run_choice import grouped
from vitdemo.page.components.run_list import RunList
from vitdemo.page.kit import FreeDropdown, renewed
from vitdemo.page.look.tab import Look
from vitdemo.runs import Run
from vitdemo.workbench import Answer, Workbench

KINDS = {
    "attention": "Attention of a layer",
    "rollout": "Rollout up to a layer",
    "relevance": "Relevance for a class",
}
KINDS_OF_MODEL = (("vit",), ("timm",), CONVOLUTIONAL)  # from scratch, pretrained, convolutional
OWN_ANSWER = "the predicted class of each"
INTRO = (
    "The same image in several models, at the same relative depth: 100% is the last layer of each "
    "model. Convolutional models have no attention and are shown with Grad-CAM, which depends on "
    "the class. Each map is scaled to its own maximum. Compare colours within a map, not between "
    "models."
)


def build(look: Look) -> None:
    """Lay out and wire the section."""
    found = look.workbench.explained_runs()
    gr.Markdown(INTRO)
    first = [run.name for run in one_of_each_family(found)]
    chosen = RunList(grouped(found), first, label="Models", elem_id="side-models")
    with gr.Row():
        kind = gr.Radio(
            [(title, name) for name, title in KINDS.items()],
            value="attention",
            label="Map",
            min_width=300,
        )
        depth = gr.Slider(0, 100, 100, step=5, label="Relative depth, %", min_width=300)
        target = FreeDropdown(
            [OWN_ANSWER, *class_names(found)],
            value=OWN_ANSWER,
            label="Class (relevance, Grad-CAM)",
            filterable=True,
            min_width=300,
        )
    view = Maps(elem_id="side-by-side")

    def offer(_image, _model, names, target):
        """Return the models and classes that are available now.

        The update sets a value only if a chosen model no longer exists: otherwise it would undo a
        click that was made in the meantime.
        """
        found = look.workbench.explained_runs()
        kept = [name for name in names if name in {run.name for run in found}]
        gone = {} if kept == names else {"value": kept}
        classes, _ = renewed([OWN_ANSWER, *class_names(found)], target)
        return gr.update(groups=grouped(found), **gone), classes

    def draw(image, _, names, kind, depth, target):
        found = look.workbench.explained_runs()
        known = [run.name for run in found]
        panels, problems = side_by_side(
            look.workbench,
            [name for name in known if name in names],
            image,
            depth=depth / 100,
            kind=kind,
            target=target if target in class_names(found) else None,
        )
        if not panels:
            return " ".join(problems) or "Choose a model above."
        return MapRow(panels, sentence=" ".join(problems))

    look.linked |= {"map": kind, "depth": depth, "class": target}
    asked = [chosen, kind, depth, target]
    look.add("side", offer, [chosen, target], [chosen, target], by=[])
    look.add("side", draw, asked, [view], by=asked)


def class_names(runs: Sequence[Run]) -> list[str]:
    """Return all classes of the runs without duplicates, in the order of the runs."""
    return list(dict.fromkeys(name for run in runs for name in run.classes))


def one_of_each_family(runs: Sequence[Run]) -> list[Run]:
    """Return the first available run of each kind: ViT from scratch, pretrained, convolutional."""
    firsts = (next((r for r in runs if r.spec.family in kind), None) for kind in KINDS_OF_MODEL)
    return [run for run in firsts if run is not None]


def layer_at(depth: float, layers: int) -> int:
    """Return the layer 1..`layers` at the relative depth 0 to 1."""
    return min(max(round(depth * layers), 1), layers)


def side_by_side(
    workbench: Workbench,
    names: Sequence[str],
    image: Image.Image,
    *,
    depth: float,
    kind: str,
    target: str | None = None,
) -> tuple[list[Panel], list[str]]:
    """Return a panel for each run of `names` on an RGB image, and a message for each failed run.

    Args:
        depth: relative depth of the layer in each model, 0 to 1.
        kind: one of `KINDS`. Convolutional models have no attention and always get Grad-CAM.
        target: the class to explain; None explains the class that each model predicts.

    Raises `RunError` for an unknown kind.
    """
    if kind not in KINDS:
        raise RunError(f"Unknown kind of map '{kind}': choose one of {', '.join(KINDS)}.")
    panels, problems = [], []
    for name in names:
        try:
            panels.append(_panel(workbench, workbench.run(name), image, depth, kind, target))
        except VitdemoError as error:
            problems.append(str(error))
    return panels, problems


def _panel(
    workbench: Workbench, run: Run, image: Image.Image, depth: float, kind: str, target: str | None
) -> Panel:
    answer = workbench.answer(run, image)
    if kind_of(workbench.model(run)) == "cnn":
        return _class_panel(workbench, answer, image, "grad_cam", target)
    if kind == "relevance":
        return _class_panel(workbench, answer, image, kind, target)
    look = workbench.look(run, image)
    layer = layer_at(depth, look.layers)
    if kind == "rollout":
        values = look.rollout_map(layer, fusion="mean", discard_ratio=0.0)
        title = f"Rollout, layers 1 to {layer} of {look.layers}"
        return column(answer, values, title, METHODS["rollout"].caption)
    caption = (
        f"How much {look.reader} attends to each patch in this layer (mean of the heads). "
        f"{FINDING} The map is the same for every class."
    )
    title = f"Attention, layer {layer} of {look.layers}"
    return column(answer, look.head_maps(layer).mean(0), title, caption)


def _class_panel(
    workbench: Workbench, answer: Answer, image: Image.Image, method: str, target: str | None
) -> Panel:
    run = answer.run
    run.check_classes()
    if target is not None and target not in run.classes:
        raise RunError(f"'{run.name}' has no class '{target}'. Choose another class.")
    index = run.classes.index(target) if target else int(answer.probabilities.argmax())
    _, pixels = workbench.input(run.preprocessing, image)
    values = attribute(method, workbench.model(run), pixels, index)[0]  # (rows, columns)
    title = f"{METHODS[method].title} for {run.classes[index]}"
    drawn = column(answer, values.float().cpu().numpy(), title, METHODS[method].caption)
    return replace(drawn, fraction=False)


def column(answer: Answer, values: np.ndarray, title: str, caption: str) -> Panel:
    """Return the panel of one map, with the model's most probable classes."""
    run, (indices, shares) = answer.run, top_k(answer.probabilities, 3)
    likely = ", ".join(
        f"{run.classes[i]} {100 * p:.1f}%" for i, p in zip(indices, shares, strict=True)
    )
    return Panel(
        title,
        values,
        answer.seen,
        f"{run.name}: {title}",
        head=run.name,
        lines=[likely or "no classes (no classifier with known labels)"],
        caption=caption,
    )
