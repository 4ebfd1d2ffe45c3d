"""Distillation: a part of the target is what another model predicts for the same pixels."""

import torch
from torch import Tensor, nn

from vitdemo.training.devices import memory_format
from vitdemo.training.inference import Preprocessing


class Teacher:
    """A trained model that answers every picture that its student sees.

    It sees the very pixels, flipped, cropped and mixed alike, and the student is to agree with it
    there (Beyer et al. 2022, "A good teacher is patient and consistent"). With cross-entropy, a
    target of which `share` is the teacher's answer is Hinton et al.'s (2015) sum of two losses at a
    temperature of 1. The model is put into evaluation mode and learns nothing.
    """

    def __init__(self, model: nn.Module, preprocessing: Preprocessing, share: float):
        self.memory_format = memory_format(model)
        self.model = model.eval().requires_grad_(False).to(memory_format=self.memory_format)
        self.preprocessing = preprocessing
        self.share = share

    def targets(self, pixels: Tensor, labels: Tensor) -> Tensor:
        """Pixels (B, 3, S, S) in 0..255 and label targets (B, C) -> targets (B, C)."""
        inputs = self.preprocessing(pixels).contiguous(memory_format=self.memory_format)
        answers = self.model(inputs).float().softmax(1)  # (B, C)
        return torch.lerp(labels, answers, self.share)
