"""What a model predicts for many pictures, and how pictures become its input."""

from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vitdemo.data import prepare


@dataclass(frozen=True)
class Preprocessing:
    """How uint8 pictures become a model's input: side in pixels, mean and std of each channel."""

    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, images: Tensor) -> Tensor:
        """(B, 3, S, S) uint8 or float in 0..255 -> (B, 3, size, size) float32."""
        return prepare(images, self.size, self.mean, self.std)


@torch.inference_mode()
def predict(
    model: nn.Module,
    images: Tensor,
    preprocessing: Preprocessing,
    batch_size: int = 0,
    *,
    half: bool = False,
) -> Tensor:
    """Logits (N, C) float32, on the CPU, of uint8 `images` (N, 3, S, S), in evaluation mode.

    Args:
        batch_size: 0: 1000 on CUDA, 250 elsewhere.
        half: on CUDA, multiply in float16 under autocast, for figures that steer a training. What
            is written down is float32, of which torch lets CUDA's convolutions round to TF32.
    """
    device = next(model.parameters()).device
    on_cuda = device.type == "cuda"
    context = torch.autocast("cuda", torch.float16) if half and on_cuda else nullcontext()
    was_training = model.training
    model.eval()
    with context:
        logits = [
            model(preprocessing(part.to(device))).float()
            for part in images.split(batch_size or (1000 if on_cuda else 250))
        ]  # each (B, C)
    model.train(was_training)
    return torch.cat(logits).cpu()
