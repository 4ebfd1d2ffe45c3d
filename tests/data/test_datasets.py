"""Datasets as tensors: exact content, splits and a specific error for each invalid folder."""

import hashlib
import re
import shlex
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.support.factories import noise_batch
from vitdemo import data
from vitdemo.data import (
    LabelledImages,
    cifar10,
    datasets,
    open_dataset,
    preprocess_images,
    sample_stratified,
    stratified_split,
)
from vitdemo.data.image_files import crop_and_resize, to_uint8
from vitdemo.errors import DataError

# (seed, digest of validation indices, digest of 10,000 other indices), from scikit-learn
SPLITS = [
    (0, "90550577eb6d6b26", "5bb23bfaf0959482"),
    (1, "c77fef5e34b4d731", "3a2253904a6e3a2e"),
    (2, "9beca6e987ca5b44", "d0d5096bdf4f9ab3"),
]
THREE_CLASSES = {"train/ant": 4, "train/bee": 3, "train/cow": 2, "test/ant": 2, "test/cow": 1}


def test_image_folder_is_loaded_as_the_page_shows_it(put_pictures):
    root = put_pictures(THREE_CLASSES | {"train/.cache": 1, "test/.cache": 1})  # not a class
    source = open_dataset(root)
    assert source.classes == ("ant", "bee", "cow")
    assert (source.name, source.is_cifar10) == ("pictures", False)
    train = source.load("train", 16)
    assert train.images.shape == (9, 3, 16, 16)
    assert train.images.dtype == torch.uint8
    assert train.labels.tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 2]
    with Image.open(root / "train" / "bee" / "1.png") as first:
        assert np.array_equal(train.images[5].numpy(), to_uint8(crop_and_resize(first, 16)))
    assert source.load("test", 16).labels.tolist() == [0, 0, 2]  # as in training


@pytest.mark.parametrize(
    ("counts", "part", "message"),
    [
        (THREE_CLASSES | {"test/dodo": 1}, "test", "'dodo'"),
        (THREE_CLASSES, "validation", "'validation'"),
        ({"train/ant": 1, "train/bee": 1, "test": 0}, "test", "Put them into .*/test/<class>/"),
        (THREE_CLASSES | {"train/dodo": 0}, "train", "'dodo' has no images in '.*/train/dodo'"),
        (THREE_CLASSES | {"test/bee": 0}, "test", "'bee' has no images in '.*/test/bee'"),
        ({"train/ant": 1, "train/bee": 1}, None, "has train/ but no test/"),
        ({"train/ant": 1, "test/ant": 1}, None, "at least two"),
        (THREE_CLASSES, "train", r"bee/broken\.png"),
    ],
)
def test_invalid_image_folder_raises_a_specific_error(put_pictures, counts, part, message):
    root = put_pictures(counts)
    if "broken" in message:
        (root / "train" / "bee" / "broken.png").write_bytes(b"no picture")
    source = open_dataset(root) if part else None
    with pytest.raises(DataError, match=message):
        source.load(part) if part else open_dataset(root)


def test_only_the_default_folder_downloads_cifar10_automatically(monkeypatch, tmp_path):
    downloads = []
    monkeypatch.setattr(datasets, "download_cifar10", lambda root, on_bytes: downloads.append(root))
    monkeypatch.delenv("VITDEMO_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / ".DS_Store").touch()
    for root, state in ((tmp_path / "my images", "does not exist"), (Path("empty"), "is empty")):
        command = re.escape(f"python train.py download --data {shlex.quote(str(root))}")
        with pytest.raises(DataError, match=f"'{root}' {state}.*{command}"):
            data.find_dataset(root)
        with monkeypatch.context() as patch, pytest.raises(DataError, match=f"'{root}' {state}"):
            patch.setenv("VITDEMO_DATA", str(root))
            data.find_dataset()
    assert downloads == []
    assert data.find_dataset().is_cifar10
    assert downloads == [Path("data")]


@pytest.mark.parametrize("download", [True, False])
def test_folder_of_another_structure_is_rejected(put_pictures, download):
    with pytest.raises(DataError, match="train/<class>/"):
        open_dataset(put_pictures({"holiday": 2}), download=download)


@pytest.mark.parametrize("part", ["", "half of it"])
def test_failed_download_gives_the_reason_and_leaves_no_empty_folder(monkeypatch, tmp_path, part):
    def fail(url, file, **options):
        if part:
            file.with_name(f"{file.name}.part").write_text(part)
        raise OSError("no route to host")

    monkeypatch.setattr(cifar10, "download_file", fail)
    monkeypatch.setattr(cifar10, "fetch_from_hub", fail)
    for _ in range(2):
        with pytest.raises(DataError, match=r"no route to host.*--data"):
            open_dataset(tmp_path / "data", download=True)
        assert (tmp_path / "data").exists() == bool(part)  # the next attempt resumes it


def test_concurrent_requests_download_the_dataset_once(monkeypatch, tmp_path):
    downloads = []

    def fetch(root, on_bytes):
        downloads.append(root)
        time.sleep(0.2)
        (root / cifar10.ARRAYS_FOLDER).mkdir()

    monkeypatch.setattr(cifar10, "fetch_from_hub", fetch)
    with ThreadPoolExecutor(4) as pool:
        opened = pool.map(lambda _: open_dataset(tmp_path / "data", download=True), range(4))
        assert all(source.is_cifar10 for source in opened)
    assert len(downloads) == 1


def test_unwritable_data_folder_is_named_in_the_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"'.*file/data' cannot be written to \(.*--data"):
        open_dataset(tmp_path / "file" / "data", download=True)


def test_split_is_stratified_and_depends_on_the_seed():
    labels = torch.tensor([0] * 60 + [1] * 30 + [2] * 10)
    train, validation = stratified_split(labels, 0.2, seed=0)
    assert labels[validation].bincount().tolist() == [12, 6, 2]
    assert sorted(train.tolist() + validation.tolist()) == list(range(100))
    assert torch.equal(validation, stratified_split(labels, 0.2, seed=0)[1])
    assert not torch.equal(validation, stratified_split(labels, 0.2, seed=4)[1])
    assert len(stratified_split(labels, 12, seed=0)[1]) == 12  # a number of images


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("fraction", [0.001, 0.05, 0.1, 0.2, 0.5, 0.9, 0.999])
@pytest.mark.parametrize(
    "counts", [[8] * 200, [200, 200, 5, 4, 3, 2], [20] * 10 + [4] * 10, [4, 4], [2] * 30, [999, 2]]
)
def test_split_has_every_class_in_both_parts(counts, fraction, seed):
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    labels = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))]
    train, validation = stratified_split(labels, fraction, seed)
    assert sorted(train.tolist() + validation.tolist()) == list(range(len(labels)))
    for part in (train, validation):
        assert labels[part].bincount(minlength=len(counts)).min() >= 1
        assert (part.diff() > 0).all()
    count, limit = -(-fraction * len(labels) // 1), len(labels) - len(counts)
    assert len(validation) == pytest.approx(min(max(count, len(counts)), limit), abs=len(counts))
    # A large class keeps its fraction.
    large = labels[validation].bincount()[0] / counts[0]
    assert counts[0] < 100 or large == pytest.approx(fraction, abs=len(counts) / counts[0])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("count", [20, 50, 100, 239, 250, 256, 258])
def test_stratified_subset_has_the_requested_size_and_every_class(count, seed):
    labels = torch.arange(20).repeat_interleave(torch.tensor([20] * 10 + [4] * 5 + [2] * 4 + [31]))
    indices = data.stratified_subset(labels, count, seed)
    assert len(set(indices.tolist())) == count
    assert labels[indices].bincount(minlength=20).min() >= 1
    with pytest.raises(
        DataError, match=r"19, fewer than the 20 classes\. Choose --train-images 20"
    ):
        data.stratified_subset(labels, 19, seed)


def test_split_error_names_classes_with_a_single_image():
    labels = torch.tensor([0, 0, 0, 0, 1, 2, 2, 3])
    with pytest.raises(DataError, match="single image: 1, 3"):
        stratified_split(labels, 0.4, seed=0)
    with pytest.raises(DataError, match="single image: bee, dodo"):
        stratified_split(labels, 0.4, seed=0, classes=("ant", "bee", "cow", "dodo"))


def compute_digest(indices):
    return hashlib.blake2b(indices.numpy().tobytes(), digest_size=8).hexdigest()


@pytest.mark.parametrize(("seed", "split_digest", "subset_digest"), SPLITS)
def test_splits_of_earlier_runs_are_unchanged(seed, split_digest, subset_digest):
    labels = torch.arange(50_000) % 10
    train, validation = stratified_split(labels, 0.1, seed)
    assert compute_digest(validation) == split_digest
    assert compute_digest(data.stratified_subset(labels[train], 10_000, seed)) == subset_digest


def test_fingerprint_depends_on_images_labels_and_class_names():
    images, labels, names = noise_batch(4, 8), torch.tensor([0, 0, 1, 1]), ("ant", "bee")
    pixel, label = images.clone(), labels.clone()
    pixel[2, 1, 0, 0] += 1
    label[2] += 1
    changed = [(images.clone(), labels.clone()), (pixel, labels), (images, label)]
    changed.append((images[[1, 0, 2, 3]], labels))
    fingerprints = [data.compute_fingerprint(LabelledImages(*parts), names) for parts in changed]
    fingerprints += [
        data.compute_fingerprint(LabelledImages(images, labels), n)
        for n in (names, ("a", "ntbee"), names[::-1])
    ]
    assert fingerprints[0] == fingerprints[4]
    assert len(set(fingerprints)) == len(fingerprints) - 1


def test_pixel_statistics_equal_numpy():
    images = noise_batch(1500, 4)  # more than one chunk
    images[:, 1] //= 2
    pixels = images.numpy().astype(np.float64) / 255
    mean, std = data.pixel_statistics(images)
    assert mean == pytest.approx(pixels.mean((0, 2, 3)), abs=6e-5)
    assert std == pytest.approx(pixels.std((0, 2, 3)), abs=6e-5)
    # The standard deviation of a uniform image is positive, because it is a divisor.
    assert min(data.pixel_statistics(torch.full((2, 3, 4, 4), 7, dtype=torch.uint8))[1]) > 0


@pytest.mark.parametrize("size", [16, 40, 64, 96])
def test_training_and_page_preprocess_images_alike(size):
    images = noise_batch()
    crop = crop_and_resize(Image.fromarray(images[0].permute(1, 2, 0).numpy()), size)
    inputs = 255 * preprocess_images(images, size, (0, 0, 0), (1, 1, 1))[0]
    assert (inputs - torch.from_numpy(to_uint8(crop)).float()).abs().max() <= 1


def test_prepare_normalises_each_channel():
    images = torch.tensor([0, 255, 51], dtype=torch.uint8).view(1, 3, 1, 1).expand(1, 3, 4, 4)
    inputs = preprocess_images(images, 4, (0.5, 0.5, 0.1), (0.5, 0.25, 0.1))
    assert inputs[0, :, 0, 0].tolist() == pytest.approx([-1, 2, 1])


def test_synthetic_classes_have_equal_colours_in_training_and_test_set():
    train, test = (data.SYNTHETIC_DATASET.load(part).images.float() for part in ("train", "test"))
    first, second = (images.std((2, 3)).view(4, 24, 3).mean(1) for images in (train, test))
    assert (first - second).abs().max() < 2  # grey levels; other colours differ by 60


def test_cifar10_has_its_pixel_statistics(cifar10):
    images = cifar10.load("train").images
    assert images.shape == (50_000, 3, 32, 32)
    assert data.pixel_statistics(images) == (data.CIFAR10_MEAN, data.CIFAR10_STD)


@pytest.mark.parametrize("count", [1, 7, 10, 55, 99, 100, 1000])
def test_stratified_sample_is_proportional_to_class_sizes(count):
    labels = np.repeat([0, 1, 2], [50, 30, 20])
    indices = sample_stratified(labels, count)
    assert len(indices) == len(set(indices)) == min(count, 100)
    assert (np.diff(indices) > 0).all()
    counts = np.bincount(labels[indices], minlength=3)
    assert np.abs(counts - len(indices) * np.array([0.5, 0.3, 0.2])).max() <= 1


def test_stratified_sample_supports_classes_of_any_size():
    assert set(sample_stratified(np.array([0, 0, 0, 0, 1]), 5)) == set(range(5))
    assert sample_stratified(np.array([3]), 1).tolist() == [0]
