"""Training and validation split of a recipe, and the preprocessing of its images."""

from collections.abc import Sequence

import timm
import torch

from vitdemo import data
from vitdemo.errors import VitdemoError
from vitdemo.training.inference import Preprocessing
from vitdemo.training.recipes import Recipe


def split_training_set(
    pictures: data.LabelledImages, recipe: Recipe, classes: Sequence[str] = ()
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the indices of the training images (N,) and of the validation images (M,).

    Every class is in both. Raises `VitdemoError` if the crop padding or the number of training
    images is too large, `DataError` naming a class (by its name in `classes`) with a single image.
    """
    kept, held = split_labels(
        pictures.labels, recipe.validation_share, recipe.seed, recipe.train_pictures, classes
    )
    if recipe.crop_padding >= pictures.images.shape[-1]:
        raise VitdemoError(
            f"crop_padding {recipe.crop_padding} is too large for images of "
            f"{pictures.images.shape[-1]} pixels: choose a smaller value."
        )
    return kept, held


def split_labels(
    labels: torch.Tensor,
    validation_fraction: float,
    seed: int,
    count: int = 0,
    classes: Sequence[str] = (),
) -> tuple[torch.Tensor, torch.Tensor]:
    """Split labels (N,) into sorted indices for training (`count` of them; 0: all) and validation.

    Raises `DataError` for a class with a single image, `VitdemoError` if `count` is too large.
    """
    kept, held = data.stratified_split(labels, validation_fraction, seed, classes)
    if count >= len(kept):
        raise VitdemoError(
            f"train_pictures is {count}, but the training set has only {len(kept)} "
            "images after the validation split: choose a smaller number, or 0 for all."
        )
    if count:
        kept = kept[data.stratified_subset(labels[kept], count, seed)]
    return kept, held


def shuffle_labels(pictures: data.LabelledImages, seed: int) -> data.LabelledImages:
    """Return the same images with permuted labels; the number of images per class is unchanged."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(pictures), generator=generator).to(pictures.labels.device)
    return data.LabelledImages(pictures.images, pictures.labels[order])


def get_preprocessing(
    recipe: Recipe, dataset: data.ImageDataset, pictures: data.LabelledImages
) -> Preprocessing:
    """Return the preprocessing of a recipe's model.

    The normalisation is that of the pretrained weights, of CIFAR-10 or of the training images.
    """
    if recipe.model.family == "timm":
        pretrained = timm.get_pretrained_cfg(recipe.model.name)
        mean, std = tuple(pretrained.mean), tuple(pretrained.std)
    elif dataset.is_cifar10:
        mean, std = data.CIFAR10_MEAN, data.CIFAR10_STD
    else:
        mean, std = data.pixel_statistics(pictures.images)
    return Preprocessing(recipe.model.image_size, mean, std)
