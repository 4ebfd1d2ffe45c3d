"""Distillation: the student learns the teacher's predictions for the same pixels."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from tests.support.factories import random_model
from tests.training.test_trainer import PLAIN, RICH, TINY, make_trainer
from vitdemo.training import Preprocessing
from vitdemo.training.teacher import Teacher

NORMALISED = Preprocessing(16, (0.4,) * 3, (0.2,) * 3)


def make_teacher(alpha=0.5, seed=3):
    return Teacher(random_model(TINY, seed, 4).requires_grad_(False), NORMALISED, alpha)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_distillation_loss_is_the_weighted_sum_of_both_losses(alpha):
    """Hinton et al. 2015, section 2, at a temperature of 1."""
    recipe = replace(PLAIN, label_smoothing=0.1)  # affects the label loss only
    distilled, plain = make_trainer(recipe, teacher=make_teacher(alpha)), make_trainer(recipe)
    for trainer in (distilled, plain):
        trainer.autocast = False
        trainer._prepare_forward()
        trainer._draw_epoch()
        trainer.model.eval()
    pixels, _ = distilled.batches.load(0)
    predicted = distilled.teacher.model(NORMALISED(pixels)).softmax(1)
    logits = distilled.model(distilled._preprocess(pixels))
    expected = (1 - alpha) * plain._compute_loss(0)[0] + alpha * F.cross_entropy(logits, predicted)
    torch.testing.assert_close(distilled._compute_loss(0)[0], expected)


def test_teacher_and_student_see_the_same_pixels():
    trainer, pixels = make_trainer(RICH, teacher=make_teacher()), []
    for side in (trainer, trainer.teacher):
        norm = side.preprocessing
        mean, std = (torch.tensor(v).view(3, 1, 1) for v in (norm.mean, norm.std))
        side.model.register_forward_pre_hook(
            lambda _, inputs, mean=mean, std=std: pixels.append(inputs[0] * std + mean)
        )
    trainer._prepare_forward()
    trainer._draw_epoch()
    trainer._compute_loss(0)
    torch.testing.assert_close(pixels[0], pixels[1])
