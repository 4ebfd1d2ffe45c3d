"""Which pictures a recipe trains and validates on, and how they become the model's input."""

import timm
import torch

from vitdemo import data
from vitdemo.errors import VitdemoError
from vitdemo.recipes import Recipe
from vitdemo.training.inference import Preprocessing


def split(pictures: data.Pictures, recipe: Recipe) -> tuple[torch.Tensor, torch.Tensor]:
    """Indices of the pictures to train on (N,) and to validate on (M,).

    Raises `VitdemoError` where the crop's padding or the number of training pictures does not fit
    the pictures, `DataError` where a class has too few of them.
    """
    kept, held = data.stratified_split(pictures.labels, recipe.validation_share, recipe.seed)
    if recipe.crop_padding >= pictures.images.shape[-1]:
        raise VitdemoError(
            f"crop_padding {recipe.crop_padding} is not below the pictures' side of "
            f"{pictures.images.shape[-1]} pixels."
        )
    if recipe.train_pictures >= len(kept):
        raise VitdemoError(
            f"train_pictures is {recipe.train_pictures}, of {len(kept)} that are left beside the "
            "validation pictures: 0 takes all."
        )
    if recipe.train_pictures:
        chosen, _ = data.stratified_split(
            pictures.labels[kept], len(kept) - recipe.train_pictures, recipe.seed
        )
        kept = kept[chosen]
    return kept, held


def with_shuffled_labels(pictures: data.Pictures, seed: int) -> data.Pictures:
    """The same pictures and as many of each class, but each picture has another one's label."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(pictures), generator=generator).to(pictures.labels.device)
    return data.Pictures(pictures.images, pictures.labels[order])


def preprocessing_of(recipe: Recipe, source: data.Source, pictures: data.Pictures) -> Preprocessing:
    """The pretrained weights' own normalisation, CIFAR-10's, or that of the training pictures."""
    if recipe.model.family == "timm":
        pretrained = timm.get_pretrained_cfg(recipe.model.name)
        mean, std = tuple(pretrained.mean), tuple(pretrained.std)
    elif source.is_cifar10:
        mean, std = data.CIFAR10_MEAN, data.CIFAR10_STD
    else:
        mean, std = data.pixel_statistics(pictures.images)
    return Preprocessing(recipe.model.image_size, mean, std)
