"""What a training costs, before it starts: parameters, multiply-adds, and minutes on this machine.

The minutes come from a probe: the recipe's own model and steps on made-up pictures, for two
seconds. Its speed is kept in a file, so each model and batch is measured once on a machine.
"""

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from vitdemo import data, runs
from vitdemo.models import build_model, count_macs, count_parameters
from vitdemo.recipes import Recipe
from vitdemo.runs.provenance import device_name
from vitdemo.training import Preprocessing, Trainer

SPEEDS = ".speeds.json"
PROBE_SECONDS = 2.0
STEPS = 40  # of a probe, at most
BEGIN_SECONDS = 15  # until train.py has its imports and the pictures, and to load the best weights
TESTED = 10_000  # pictures at the end
FORWARD = 3  # a step takes about as long as three passes forward
CLASSES = 10


@dataclass(frozen=True)
class Cost:
    """`macs` of one forward pass; `images_per_second` as the probe had it."""

    parameters: int
    macs: int
    images_per_second: float
    minutes: float

    @property
    def words(self) -> str:
        minutes = f"{self.minutes:.0f}" if self.minutes >= 9.5 else f"{self.minutes:.1f}"
        return (
            f"{self.parameters / 1e6:.2f} M parameters, {self.macs / 1e6:.0f} M multiply-adds a "
            f"picture. About {minutes} minutes on this machine, at "
            f"{self.images_per_second:.0f} images a second as measured in a probe."
        )


def cost_of(
    recipe: Recipe, pictures: int, folder: Path, device: torch.device, *, busy: bool = False
) -> Cost:
    """Of `recipe` where `pictures` can be trained on; speeds are kept in `folder`, but those that a
    probe has on a `busy` machine.

    Raises `ModelError` where the model cannot be built.
    """
    model = build_model(recipe.model, CLASSES)
    speed = _speed(recipe, folder, device, busy)
    trained = recipe.train_pictures or pictures
    held = pictures * recipe.validation_share / (1 - recipe.validation_share)
    passes = recipe.total_epochs * (trained + held / FORWARD) + TESTED / FORWARD
    minutes = (passes / speed + BEGIN_SECONDS) / 60
    macs = count_macs(model, recipe.model.image_size)
    return Cost(count_parameters(model), macs, speed, minutes)


def _speed(recipe: Recipe, folder: Path, device: torch.device, busy: bool) -> float:
    known, key = _read(folder), _key(recipe, device)
    if key not in known:
        speed = probe(recipe, device)
        if busy:
            return speed
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(_read(folder) | {key: round(speed, 1)}, indent=1)
        runs.write_atomically(folder / SPEEDS, lambda file: file.write(text.encode()))
        return speed
    return known[key]


def _key(recipe: Recipe, device: torch.device) -> str:
    """All that the speed of a step depends on."""
    parts = ("batch_size", "optimizer", "policy", "mixup", "cutmix", "ema_decay", "patch_dropout")
    found = {name: getattr(recipe, name) for name in parts}
    model = {"image_size": recipe.model.image_size, **recipe.model.options}
    return json.dumps(found | model | {"device": device_name(device)}, sort_keys=True)


def _read(folder: Path) -> dict[str, float]:
    try:
        found = json.loads((folder / SPEEDS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    items = found.items() if isinstance(found, dict) else ()
    return {key: speed for key, speed in items if isinstance(speed, int | float) and speed > 0}


def probe(recipe: Recipe, device: torch.device) -> float:
    """Training pictures a second of `recipe`'s steps."""
    rests = {"unmixed_epochs": 0, "whole_epochs": 0, "head_epochs": 0, "train_pictures": 0}
    recipe = replace(recipe, epochs=1, warmup_epochs=0, keep="", teacher="", **rests)
    ends: list[float] = []  # of each step

    def enough() -> bool:
        ends.append(time.perf_counter())
        return len(ends) > 2 and ends[-1] - ends[0] > PROBE_SECONDS

    trainer = Trainer(
        build_model(recipe.model, CLASSES).to(device),
        recipe,
        _made_up(STEPS * recipe.batch_size, recipe.model.image_size),
        _made_up(CLASSES, recipe.model.image_size),
        num_classes=CLASSES,
        preprocessing=Preprocessing(recipe.model.image_size, data.CIFAR10_MEAN, data.CIFAR10_STD),
        stop=enough,
    )
    next(trainer.fit())
    return recipe.batch_size * (len(ends) - 1) / (ends[-1] - ends[0])


def _made_up(count: int, side: int) -> data.Pictures:
    images = torch.randint(0, 256, (1, 3, side, side), dtype=torch.uint8)
    return data.Pictures(images.repeat(count, 1, 1, 1), torch.arange(count) % CLASSES)
