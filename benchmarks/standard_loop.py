"""Standard training loop for comparison: torchvision's transforms in a DataLoader.

This is the loop of most notebooks and public repositories. `torchvision.transforms` processes PIL
images one by one, two worker processes form batches, and a plain loop trains in float32. Model,
batch size, optimizer, augmentation and label smoothing are the same as in the recipe.

    measure_speeds(recipe, steps=20, rounds=3)  # {"usual": [images/s, ...], "ours": [...]}
"""

import time
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms as T
from torchvision.transforms.functional import to_pil_image

from vitdemo import data
from vitdemo.models import build_model
from vitdemo.training import Preprocessing
from vitdemo.training.optimisation import build_optimizer
from vitdemo.training.pretraining import make_trainer
from vitdemo.training.recipes import Recipe

NUM_WORKERS = 2
MEAN, STD = data.CIFAR10_MEAN, data.CIFAR10_STD
# Settings that a standard loop does not have; they are switched off in both loops.
DISABLED_SETTINGS = {
    **dict.fromkeys(("mixup", "cutmix", "cutout", "patch_dropout", "ema_decay", "clip_norm"), 0),
    **dict.fromkeys(("head_epochs", "unmixed_epochs", "whole_epochs", "warmup_epochs"), 0),
    **{"alternating_flip": False, "teacher": "", "schedule": "constant", "pretrained": False},
}
_POLICIES: dict[str, Callable[[], nn.Module]] = {
    "trivial": T.TrivialAugmentWide,
    "rand": T.RandAugment,  # two operations of magnitude 9 of 30, as in vitdemo
    "auto": lambda: T.AutoAugment(T.AutoAugmentPolicy.CIFAR10),
}


class PilDataset(Dataset):
    """Dataset of PIL images and labels; `transform` is applied to each image."""

    def __init__(self, pictures: data.LabelledImages, transform: Callable):
        self.images = [to_pil_image(image) for image in pictures.images]
        self.labels = pictures.labels.tolist()
        self.transform = transform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.transform(self.images[index]), self.labels[index]


def disable_settings(recipe: Recipe) -> Recipe:
    """Return the recipe without settings that the standard loop does not have.

    Raises `ValueError` for self-supervised pretraining.
    """
    if recipe.mask_ratio:
        raise ValueError(f"'{recipe.name}' trains without labels: choose a supervised recipe.")
    return replace(recipe, **DISABLED_SETTINGS)


def build_transform(recipe: Recipe) -> T.Compose:
    """Return the recipe's augmentation in torchvision: one PIL image -> (3, size, size)."""
    size, chosen = recipe.model.image_size, []
    if recipe.crop_padding:
        chosen.append(T.RandomCrop(32, recipe.crop_padding, padding_mode="reflect"))
    if recipe.flip:
        chosen.append(T.RandomHorizontalFlip())
    if recipe.policy != "none":
        chosen.append(_POLICIES[recipe.policy]())
    chosen += [T.Resize(size)] if size != 32 else []
    chosen += [T.ToTensor(), T.Normalize(MEAN, STD)]
    chosen += [T.RandomErasing(recipe.erasing)] if recipe.erasing else []
    return T.Compose(chosen)


def measure_speeds(recipe: Recipe, steps: int, rounds: int) -> dict[str, list[float]]:
    """Measure images per second in epochs of `steps` steps, `rounds` times, loops alternating.

    The first epoch of each loop is not counted.
    """
    recipe = disable_settings(recipe)
    pictures = random_dataset(steps * recipe.batch_size)
    ours, usual = _vitdemo_epochs(recipe, pictures, rounds), _standard_epochs(recipe, pictures)
    found = {"usual": [], "ours": []}
    for epoch in range(rounds + 1):
        for name, rate in (("usual", next(usual)), ("ours", next(ours))):
            if epoch:
                found[name].append(rate)
    return found


def random_dataset(count: int) -> data.LabelledImages:
    """Return `count` random images with labels."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (count, 3, 32, 32), generator=generator, dtype=torch.uint8)
    return data.LabelledImages(images, torch.arange(count) % 10)


def _vitdemo_epochs(recipe: Recipe, pictures: data.LabelledImages, rounds: int):
    torch.manual_seed(0)
    trainer = make_trainer(
        build_model(recipe.model, 10),
        replace(recipe, epochs=rounds + 1),
        pictures,
        random_dataset(10),
        num_classes=10,
        preprocessing=Preprocessing(recipe.model.image_size, MEAN, STD),
    )
    for record in trainer.fit():
        yield record["images_per_second"]


def _standard_epochs(recipe: Recipe, pictures: data.LabelledImages):
    torch.manual_seed(0)
    model = build_model(recipe.model, 10).train()
    optimizer = build_optimizer(model, recipe, recipe.learning_rate, recipe.layer_decay)
    loader = DataLoader(
        PilDataset(pictures, build_transform(recipe)),
        recipe.batch_size,
        shuffle=True,
        num_workers=NUM_WORKERS,
        persistent_workers=True,
        drop_last=True,
    )
    while True:
        started = time.perf_counter()
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels, label_smoothing=recipe.label_smoothing)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        yield len(loader) * recipe.batch_size / (time.perf_counter() - started)
