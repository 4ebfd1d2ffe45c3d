"""Checks of models and predictions, shared by the analyses."""

import numpy as np
from torch import Tensor, nn

from vitdemo.errors import RunError
from vitdemo.models import is_vision_transformer
from vitdemo.runs import Run


def to_numpy(tensor: Tensor) -> np.ndarray:
    return tensor.float().cpu().numpy()


def require_attention(run: Run, model: nn.Module) -> None:
    """Raise `RunError` if the run's `model` has no attention."""
    if not is_vision_transformer(model):
        raise RunError(f"'{run.name}' has no attention heads. Choose a Vision Transformer.")


def require_finite(run: Run, values: np.ndarray) -> None:
    """Raise `RunError` if the predicted `values` of `run` contain NaN or infinity."""
    if not np.isfinite(values).all():
        raise RunError(f"'{run.name}' predicts NaN: its training diverged. Choose another model.")
