"""Datasets as uint8 tensors: CIFAR-10 or a folder of images, with splits and normalisation.

A set of images is stored in memory as one tensor, so data loaders and workers are not needed.
"""

from vitdemo.data.datasets import (
    DEFAULT_ROOT,
    MISSING_DATASET,
    ImageDataset,
    default_root,
    find_dataset,
    is_dataset_missing,
    open_dataset,
)
from vitdemo.data.labelled_images import (
    CIFAR10_MEAN,
    CIFAR10_STD,
    LabelledImages,
    compute_fingerprint,
    pixel_statistics,
    preprocess_images,
)
from vitdemo.data.sampling import sample_stratified, stratified_split, stratified_subset
from vitdemo.data.synthetic import SYNTHETIC_DATASET, make_synthetic_images
from vitdemo.data.test_set import TestImage, TestSet

__all__ = [
    "CIFAR10_MEAN", "CIFAR10_STD", "DEFAULT_ROOT", "MISSING_DATASET", "SYNTHETIC_DATASET",
    "ImageDataset", "LabelledImages", "TestImage", "TestSet", "compute_fingerprint", "default_root",
    "find_dataset", "is_dataset_missing", "make_synthetic_images", "open_dataset",
    "pixel_statistics", "preprocess_images", "sample_stratified", "stratified_split",
    "stratified_subset",
]  # fmt: skip
