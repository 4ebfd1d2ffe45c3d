"""A pretrained Vision Transformer of timm's, by name, shown as it comes: without a run folder.

Its classes are those that it was trained on (ImageNet's 1,000, with their names), its weights
timm's own download or a local file.

    run = timm_run("timm:deit_tiny_patch16_224")
    run.classes[281]  # "tabby, tabby cat"
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import timm
import torch
from timm.data import ImageNetInfo, infer_imagenet_subset
from torch import nn

from vitdemo.attention import check_model
from vitdemo.errors import ModelError, RunError
from vitdemo.models import ModelSpec, build_model, count_parameters
from vitdemo.runs import Evaluation, Run
from vitdemo.training import Preprocessing

PREFIX = "timm:"


@dataclass(frozen=True)
class TimmRun(Run):
    """A model of timm's in the form that the page shows; it has no history and no evaluation.

    `weights` is a local file of them; None downloads timm's. `pretrained` False leaves the weights
    random, which is of use in tests alone.
    """

    weights: Path | None = None
    pretrained: bool = True

    @property
    def has_weights(self) -> bool:
        return True

    @property
    def has_evaluation(self) -> bool:
        return False

    @property
    def evaluation(self) -> Evaluation:
        raise RunError(f"'{self.name}' was not trained here: it has no evaluation.")


def timm_run(text: str, *, pretrained: bool = True) -> TimmRun:
    """The model of `text`, "timm:NAME" or "timm:NAME=FILE" with a local file of its weights.

    Nothing is downloaded yet. Raises `ModelError` where timm has no such model, or where it is not
    one that can be explained: a plain Vision Transformer with classes.
    """
    name, _, file = text.removeprefix(PREFIX).partition("=")
    if not text.startswith(PREFIX) or not name:
        raise ModelError(f"--model '{text}' is not of the form timm:NAME or timm:NAME=FILE.")
    if not timm.is_model(name):
        raise ModelError(f"timm has no model '{name}': see timm.list_models('*vit*').")
    if file and not Path(file).is_file():
        raise ModelError(f"The weights file '{file}' does not exist.")
    model = _without_weights(name)
    config = timm.get_pretrained_cfg(name)
    size = config.input_size[-1]
    return TimmRun(
        path=Path(text),
        name=PREFIX + name,
        config={
            "recipe": {"name": PREFIX + name, "summary": f"timm's {name}, as it comes"},
            "parameters": count_parameters(model),
        },
        classes=_class_names(model),
        spec=ModelSpec("timm", size, name),
        preprocessing=Preprocessing(size, tuple(config.mean), tuple(config.std)),
        history=(),
        stamp=(text, pretrained),
        weights=Path(file) if file else None,
        pretrained=pretrained,
    )


def load_timm_model(run: TimmRun, device: torch.device) -> nn.Module:
    """The model in evaluation mode on `device`. Raises `ModelError` without its weights."""
    with torch.inference_mode(False):
        model = build_model(
            run.spec, len(run.classes), pretrained=run.pretrained, weights=run.weights
        )
    return model.eval().to(device)


def _without_weights(name: str) -> nn.Module:
    with torch.device("meta"):  # its parts alone: quick, and no memory
        model = timm.create_model(name, pretrained=False)
    try:
        check_model(model)
    except TypeError as error:
        raise ModelError(f"timm's '{name}' cannot be shown. {error}") from error
    if model.num_classes < 2:
        raise ModelError(f"timm's '{name}' has no classes to tell apart: choose one that has.")
    return model


def _class_names(model: nn.Module) -> tuple[str, ...]:
    subset = infer_imagenet_subset(model)
    if subset is None:
        return tuple(f"class {index}" for index in range(model.num_classes))
    info = ImageNetInfo(subset)
    return _told_apart([info.index_to_description(i) for i in range(model.num_classes)])


def _told_apart(names: Sequence[str]) -> tuple[str, ...]:
    """A name that several classes have (ImageNet's two cranes) with each one's number."""
    times = Counter(names)
    return tuple(
        name if times[name] == 1 else f"{name} (class {index})" for index, name in enumerate(names)
    )
