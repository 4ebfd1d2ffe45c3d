"""Training and validation split of a recipe, and the preprocessing of its images."""

from collections.abc import Sequence

import torch

from vitdemo import data
from vitdemo.errors import VitdemoError
from vitdemo.models import get_family
from vitdemo.training.inference import Preprocessing
from vitdemo.training.recipes import Recipe


def split_training_set(
    samples: data.LabelledImages,
    recipe: Recipe,
    classes: Sequence[str] = (),
    own_validation: int = 0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the indices of the training images (N,) and of the validation images (M,).

    The last `own_validation` images are a dataset's own validation set. If the number is 0, a part
    of the images is held out, with every class in both sets. Raises `VitdemoError` if the crop
    padding or the number of training images is too large, and `DataError` for a class with a single
    image. `classes` are the class names for the error message.
    """
    train_idx, val_idx = split_labels(
        samples.labels,
        recipe.validation_share,
        recipe.seed,
        recipe.train_pictures,
        classes,
        own_validation,
    )
    if recipe.crop_padding >= samples.images.shape[-1]:
        raise VitdemoError(
            f"crop_padding {recipe.crop_padding} is too large for images of "
            f"{samples.images.shape[-1]} pixels: choose a smaller value."
        )
    return train_idx, val_idx


def split_labels(
    labels: torch.Tensor,
    validation_fraction: float,
    seed: int,
    count: int = 0,
    classes: Sequence[str] = (),
    own_validation: int = 0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Split labels (N,) into sorted indices for training (`count`, or all if 0) and validation.

    The last `own_validation` labels are the validation set, if there are any.
    Raises `DataError` for a class with a single image, `VitdemoError` if `count` is too large.
    """
    if own_validation:
        train_idx, val_idx = torch.arange(len(labels)).tensor_split([len(labels) - own_validation])
    else:
        train_idx, val_idx = data.stratified_split(labels, validation_fraction, seed, classes)
    if count >= len(train_idx):
        raise VitdemoError(
            f"--train-images is {count}, but the training set has only {len(train_idx)} "
            "images after the validation split: choose a smaller number, or 0 for all."
        )
    if count:
        train_idx = train_idx[data.stratified_subset(labels[train_idx], count, seed)]
    return train_idx, val_idx


def shuffle_labels(samples: data.LabelledImages, seed: int) -> data.LabelledImages:
    """Return the same images with permuted labels; the number of images per class is unchanged."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(samples), generator=generator).to(samples.labels.device)
    return data.LabelledImages(samples.images, samples.labels[order])


def get_preprocessing(
    recipe: Recipe, dataset: data.ImageDataset, samples: data.LabelledImages
) -> Preprocessing:
    """Return the preprocessing with the mean and std of the pretrained weights or the dataset."""
    if pretrained := get_family(recipe.model).get_colours(recipe.model):
        mean, std = pretrained
    elif dataset.is_cifar10:
        mean, std = data.CIFAR10_MEAN, data.CIFAR10_STD
    else:
        mean, std = data.pixel_statistics(samples.images)
    return Preprocessing(recipe.model.image_size, mean, std)
