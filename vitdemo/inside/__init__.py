"""What the page shows of a model's inside, one question a module: what each layer would say, heads
switched off, how far heads look, what was learnt of positions and pixels, attention in training.

Layers and heads count from 0 here, as they do in `vitdemo.attention`; the page counts from 1.
"""

import numpy as np
from torch import Tensor, nn

from vitdemo.errors import RunError
from vitdemo.models import is_vision_transformer
from vitdemo.runs import Run


def numpy(tensor: Tensor) -> np.ndarray:
    return tensor.float().cpu().numpy()


def check_attention(run: Run, model: nn.Module) -> None:
    """Raises `RunError` for a model without attention."""
    if not is_vision_transformer(model):
        raise RunError(f"'{run.name}' is no Vision Transformer: it has no attention heads.")


def check_finite(run: Run, values: np.ndarray) -> None:
    """Raises `RunError` for an answer that is none."""
    if not np.isfinite(values).all():
        raise RunError(f"'{run.name}' answers with NaN: its training diverged.")
