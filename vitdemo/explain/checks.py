"""Checks of models, classes and predictions.

Functions of tensors do not read the values of tensors, so that they can be recorded as graphs
(`torch.fx.experimental.proxy_tensor.make_fx`). Their callers check the values with these functions.
"""

import numpy as np
from torch import Tensor, nn

from vitdemo.errors import RunError
from vitdemo.explain.forward_pass import expand_target
from vitdemo.models import has_attention
from vitdemo.runs import Run


def to_numpy(tensor: Tensor) -> np.ndarray:
    return tensor.float().cpu().numpy()


def require_attention(run: Run, model: nn.Module) -> None:
    """Raise `RunError` if the run's `model` has no attention."""
    if not has_attention(model):
        raise RunError(f"'{run.name}' has no attention heads. Choose a Vision Transformer.")


def require_finite(run: Run, values: np.ndarray) -> None:
    """Raise `RunError` if the predicted `values` of `run` contain NaN or infinity."""
    if not np.isfinite(values).all():
        raise RunError(f"'{run.name}' predicts NaN: its training diverged. Choose another model.")


def check_target(target: int | Tensor, images: Tensor, count: int) -> Tensor:
    """Return the class of each image, (B,). Raises `ValueError` if one is not below `count`."""
    classes = expand_target(target, images)
    if ((classes < 0) | (classes >= count)).any():
        given = target.tolist() if isinstance(target, Tensor) else target
        raise ValueError(f"target {given} is out of range: classes are 0..{count - 1}.")
    return classes


def check_classes(target: int, against: int | None, image: Tensor, count: int) -> list[int]:
    """Return `target`, and `against` if it is a class, for `image` (1, 3, S, S).

    Raises `ValueError` if one is not below `count`.
    """
    return [int(check_target(t, image, count)) for t in (target, against) if t is not None]
