"""Analyses of one model's computation, one module each: logit lens, head ablation, distances, ...

Layers and heads count from 0 here, as in `vitdemo.explain.attention`; the page counts from 1.
"""

import numpy as np
from torch import Tensor, nn

from vitdemo.errors import RunError
from vitdemo.models import is_vision_transformer
from vitdemo.runs import Run


def to_numpy(tensor: Tensor) -> np.ndarray:
    return tensor.float().cpu().numpy()


def require_attention(run: Run, model: nn.Module) -> None:
    """Raise `RunError` for a model without attention."""
    if not is_vision_transformer(model):
        raise RunError(f"'{run.name}' is not a Vision Transformer. It has no attention heads.")


def require_finite(run: Run, values: np.ndarray) -> None:
    """Raise `RunError` for a prediction that contains NaN or infinity."""
    if not np.isfinite(values).all():
        raise RunError(f"'{run.name}' predicts NaN, because its training diverged.")
