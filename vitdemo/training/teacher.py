"""Distillation: part of the target is what another model says of the same augmented picture."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vitdemo.training.devices import memory_format
from vitdemo.training.inference import Preprocessing


@dataclass(frozen=True)
class Teacher:
    """A trained model that answers every picture that its student sees.

    It sees the very pixels, flipped, cropped and mixed alike, and the student is to agree with it
    there (Beyer et al. 2022, "A good teacher is patient and consistent"). With cross-entropy, a
    target of which `share` is the teacher's answer is Hinton et al.'s (2015) sum of two losses at a
    temperature of 1.
    """

    model: nn.Module
    preprocessing: Preprocessing
    share: float

    def __post_init__(self):
        self.model.eval().requires_grad_(False)
        self.model.to(memory_format=memory_format(self.model))

    def targets(self, pixels: Tensor, labels: Tensor) -> Tensor:
        """Pixels (B, 3, S, S) in 0..255 and label targets (B, C) -> targets (B, C)."""
        inputs = self.preprocessing(pixels).contiguous(memory_format=memory_format(self.model))
        answers = self.model(inputs).float().softmax(1)  # (B, C)
        return torch.lerp(labels, answers, self.share)
