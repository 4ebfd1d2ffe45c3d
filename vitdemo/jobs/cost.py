"""Estimated cost of a training run: parameters, multiply-adds, and time on this machine.

A probe measures the speed: it trains the recipe's model on random images for two seconds. The speed
of each configuration is cached for only ten minutes, since it depends on other processes.
"""

import json
import math
import time
from dataclasses import dataclass, replace

import torch

from vitdemo import data
from vitdemo.models import build_model, count_macs, count_parameters
from vitdemo.runs.provenance import device_name
from vitdemo.training import Preprocessing, Trainer
from vitdemo.training.recipes import Recipe

MAX_AGE_SECONDS = 600  # a cached speed that is older is measured again
PROBE_SECONDS = 2.0
MAX_PROBE_STEPS = 40  # maximum number of steps of a probe
STARTUP_SECONDS = 15  # time to start train.py and to load the images and the best weights
TEST_IMAGES = 10_000  # size of the test set
STEP_TO_FORWARD_RATIO = 3  # a training step takes about as long as three forward passes
CLASSES = 10
_speeds: dict[str, tuple[float, float]] = {}  # images per second, and measurement time


@dataclass(frozen=True)
class TrainingCost:
    """Estimated cost of a training run; `macs` are multiply-adds per image and forward pass."""

    parameters: int
    macs: int
    images_per_second: float
    minutes: float
    is_live: bool = False  # whether the speed is of a run in progress, not of the probe

    @property
    def time_text(self) -> str:
        minutes = f"{self.minutes:.0f}" if self.minutes >= 9.5 else f"{self.minutes:.1f}"
        return f"About {minutes} minutes on this machine"

    @property
    def speed_text(self) -> str:
        source = "Speed of the run in progress" if self.is_live else "Measured speed"
        return f"{source}: {self.images_per_second:.0f} images/s"

    @property
    def size_text(self) -> str:
        return (
            f"{self.parameters / 1e6:.2f} M parameters, {self.macs / 1e6:.0f} M multiply-adds per "
            "image."
        )


def estimate_training_cost(
    recipe: Recipe,
    image_count: int,
    device: torch.device,
    *,
    busy: bool = False,
    live_speed: float | None = None,
) -> TrainingCost:
    """Estimate the cost of `recipe` with up to `image_count` training images.

    The measured speed is cached. While the machine is `busy` with another run, an earlier speed is
    used, or the speed is measured and not cached. `live_speed` is the current speed of a run with
    the same settings, in images per second. Raises `ModelError` if the model cannot be built.
    """
    model = build_model(recipe.model, CLASSES)
    speed = live_speed or _training_speed(recipe, device, busy)
    train_count = recipe.train_pictures or image_count
    validation_count = image_count * recipe.validation_share / (1 - recipe.validation_share)
    passes = (
        recipe.total_epochs * (train_count + validation_count / STEP_TO_FORWARD_RATIO)
        + TEST_IMAGES / STEP_TO_FORWARD_RATIO
    )
    minutes = (passes / speed + STARTUP_SECONDS) / 60
    macs = count_macs(model, recipe.model.image_size)
    return TrainingCost(count_parameters(model), macs, speed, minutes, live_speed is not None)


def has_same_speed(recipe: Recipe, other: Recipe) -> bool:
    """Return whether runs of two recipes need the same time per image on this machine."""
    device = torch.device("cpu")  # the same device for both
    return _speed_key(recipe, device) == _speed_key(other, device)


def _training_speed(recipe: Recipe, device: torch.device, busy: bool) -> float:
    key, now = _speed_key(recipe, device), time.monotonic()
    speed, measured = _speeds.get(key, (0.0, -math.inf))
    if now - measured < MAX_AGE_SECONDS or (busy and speed):
        return speed
    speed = measure_training_speed(recipe, device)
    if not busy:
        _speeds[key] = speed, now
    return speed


def _speed_key(recipe: Recipe, device: torch.device) -> str:
    fields = ("batch_size", "optimizer", "policy", "mixup", "cutmix", "ema_decay", "patch_dropout")
    settings = {name: getattr(recipe, name) for name in fields}
    model = {"image_size": recipe.model.image_size, **recipe.model.options}
    return json.dumps(settings | model | {"device": device_name(device)}, sort_keys=True)


def measure_training_speed(recipe: Recipe, device: torch.device) -> float:
    """Measure the training speed of `recipe`, in images per second."""
    disabled = {"unmixed_epochs": 0, "whole_epochs": 0, "head_epochs": 0, "train_pictures": 0}
    recipe = replace(recipe, epochs=1, warmup_epochs=0, keep="", teacher="", **disabled)
    step_ends: list[float] = []  # time at the end of each step

    def should_stop() -> bool:
        step_ends.append(time.perf_counter())
        return len(step_ends) > 2 and step_ends[-1] - step_ends[0] > PROBE_SECONDS

    trainer = Trainer(
        build_model(recipe.model, CLASSES).to(device),
        recipe,
        _random_images(MAX_PROBE_STEPS * recipe.batch_size, recipe.model.image_size),
        _random_images(CLASSES, recipe.model.image_size),
        num_classes=CLASSES,
        preprocessing=Preprocessing(recipe.model.image_size, data.CIFAR10_MEAN, data.CIFAR10_STD),
        stop=should_stop,
    )
    next(trainer.fit())
    return recipe.batch_size * (len(step_ends) - 1) / (step_ends[-1] - step_ends[0])


def _random_images(count: int, side: int) -> data.LabelledImages:
    images = torch.randint(0, 256, (1, 3, side, side), dtype=torch.uint8)
    return data.LabelledImages(images.repeat(count, 1, 1, 1), torch.arange(count) % CLASSES)
