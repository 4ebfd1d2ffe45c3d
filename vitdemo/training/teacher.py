"""Distillation: the target includes the predictions of a teacher model."""

import torch
from torch import Tensor, nn

from vitdemo.training.devices import choose_memory_format
from vitdemo.training.inference import Preprocessing


class Teacher:
    """Trained model that predicts class probabilities for every training image of the student.

    Teacher and student receive the same augmented pixels (Beyer et al. 2022, "A good teacher is
    patient and consistent"). `distillation_weight` is the weight of the teacher's prediction in the
    training target. With cross-entropy, this mixture equals the sum of two losses in Hinton et al.
    (2015) at a temperature of 1. The teacher is in evaluation mode and is not trained.
    """

    def __init__(self, model: nn.Module, preprocessing: Preprocessing, distillation_weight: float):
        self.memory_format = choose_memory_format(model)
        self.model = model.eval().requires_grad_(False).to(memory_format=self.memory_format)
        self.preprocessing = preprocessing
        self.distillation_weight = distillation_weight

    def mix_targets(self, pixels: Tensor, labels: Tensor) -> Tensor:
        """Return `labels` (B, C) mixed with the predictions for `pixels` (B, 3, S, S) in 0..255."""
        inputs = self.preprocessing(pixels).contiguous(memory_format=self.memory_format)
        predictions = self.model(inputs).float().softmax(1)  # (B, C)
        return torch.lerp(labels, predictions, self.distillation_weight)
