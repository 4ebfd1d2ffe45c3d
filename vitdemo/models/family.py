"""Specification of a model, and the common interface of all model families."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from vitdemo.errors import ModelError

Colour = tuple[float, ...]  # red, green, blue


@dataclass(frozen=True)
class ModelSpec:
    """Specification from which a model can be rebuilt; it is saved in `config.json`.

    `image_size` is the side of the input in pixels. `name` is timm's name of the model, for the
    family "timm". `options` are arguments of the model's constructor.
    """

    family: str
    image_size: int = 32
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


def refuse_weights(
    spec: ModelSpec, num_classes: int, weights: Path | str | None, keep_head: bool
) -> nn.Module:
    raise ModelError(f"{spec.family} is always trained from scratch: remove --weights.")


@dataclass(frozen=True)
class ModelFamily:
    """Models that are built by one function, and their common capabilities.

    `build` returns a model with C classes and random weights. `load` returns a model with trained
    weights and takes the arguments of `build_model`. If the argument `weights` is None, the weights
    are the family's own. `is_third_party` is True if the weights come from other projects.
    `option_defaults` are the values of the options that the command line can set, if a spec has
    none. `get_colours` returns the mean and the standard deviation of the colours in the training
    of the pretrained weights, or None. `get_timm_arguments` returns timm's name and arguments of
    the architecture, or None if timm lacks it.
    """

    name: str
    build: Callable[[ModelSpec, int], nn.Module]
    load: Callable[[ModelSpec, int, Path | str | None, bool], nn.Module] = refuse_weights
    has_attention: bool = True
    is_third_party: bool = False
    option_defaults: Mapping[str, Any] = field(default_factory=dict)
    get_colours: Callable[[ModelSpec], tuple[Colour, Colour] | None] = lambda spec: None
    get_timm_arguments: Callable[[ModelSpec], tuple[str, dict] | None] = lambda spec: None
