"""List of the attribution methods. A new method is a module with a `METHOD`, and a line here."""

from collections.abc import Collection

from torch import nn

from vitdemo.explain.attributions import (
    attnlrp,
    grad_cam,
    gradient_rollout,
    integrated_gradients,
    last_attention,
    occlusion,
    relevance,
    rollout,
)
from vitdemo.explain.attributions.method import AttributionMethod
from vitdemo.models.capabilities import has_features

MODULES = (
    attnlrp,
    relevance,
    gradient_rollout,
    grad_cam,
    integrated_gradients,
    occlusion,
    last_attention,
    rollout,
)
METHODS: dict[str, AttributionMethod] = {each.METHOD.name: each.METHOD for each in MODULES}


def list_methods(model: nn.Module) -> list[AttributionMethod]:
    """Return the methods that support `model`, in the order of `METHODS`.

    Raises `ValueError` for a model without features.
    """
    if not has_features(model):
        raise ValueError(
            f"Cannot explain {type(model).__name__}: use a model with timm's functions "
            "forward_features and forward_head."
        )
    return [method for method in METHODS.values() if method.supports(model)]


def get_supported_methods(names: Collection[str], model: nn.Module) -> list[AttributionMethod]:
    """Return the methods `names`. Raises `ValueError` for an unknown or unsupported method."""
    supported = {method.name: method for method in list_methods(model)}
    for name in names:
        if name not in METHODS:
            raise ValueError(f"Unknown method '{name}': choose one of {', '.join(METHODS)}.")
        if name not in supported:
            raise ValueError(
                f"'{name}' does not support {type(model).__name__}: choose one of "
                f"{', '.join(supported)}."
            )
    return [supported[name] for name in names]
