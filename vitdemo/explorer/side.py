"""Several models on one picture, at the same share of their depth.

side_by_side(workbench, ["vit-best", "resnet18"], image, depth=0.5, kind="attention")
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from vitdemo.attributions import METHODS, attribute, kind_of
from vitdemo.errors import RunError, VitdemoError
from vitdemo.models import CONVOLUTIONAL
from vitdemo.runs import Run
from vitdemo.workbench import Answer, Workbench

KINDS = {
    "attention": "Attention of a layer",
    "rollout": "Rollout up to a layer",
    "relevance": "Relevance for a class",
}
KINDS_OF_MODEL = (("vit",), ("timm",), CONVOLUTIONAL)  # from scratch, pretrained, convolutional


@dataclass(frozen=True)
class Panel:
    """One model's column: what it says, and one map `values` (rows, columns) over what it saw.

    `title` names the map, `caption` says in a sentence what it shows and what it cannot.
    """

    answer: Answer
    values: np.ndarray
    title: str
    caption: str

    @property
    def run(self) -> Run:
        return self.answer.run


def one_of_each_family(runs: Sequence[Run]) -> list[Run]:
    """The first run of each kind there is: a scratch ViT, a pretrained one, a convolutional one."""
    firsts = (next((r for r in runs if r.spec.family in kind), None) for kind in KINDS_OF_MODEL)
    return [run for run in firsts if run is not None]


def layer_at(depth: float, layers: int) -> int:
    """The layer 1..`layers` at a share of the depth, 0 to 1."""
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
    """A panel for each run of `names` on an RGB image, and a sentence for each that has none.

    Args:
        depth: share of each model's layers, 0 to 1.
        kind: one of `KINDS`. A convolutional model has no attention: it gets Grad-CAM, whatever
            the kind.
        target: the class that is explained; None takes the one that each model itself says.

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
        return Panel(answer, values, title, METHODS["rollout"].caption)
    caption = (
        "Where the answer is gathered from in this one layer, mean of the heads; it is the same "
        "for every class, and does not say why one was chosen."
    )
    title = f"Attention, layer {layer} of {look.layers}"
    return Panel(answer, look.head_maps(layer).mean(0), title, caption)


def _class_panel(
    workbench: Workbench, answer: Answer, image: Image.Image, method: str, target: str | None
) -> Panel:
    run = answer.run
    if target is not None and target not in run.classes:
        raise RunError(f"'{run.name}' does not know the class '{target}'.")
    index = run.classes.index(target) if target else int(answer.probabilities.argmax())
    _, pixels = workbench.input(run.preprocessing, image)
    values = attribute(method, workbench.model(run), pixels, index)[0]  # (rows, columns)
    title = f"{METHODS[method].title} for {run.classes[index]}"
    return Panel(answer, values.float().cpu().numpy(), title, METHODS[method].caption)
