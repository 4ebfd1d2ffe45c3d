"""Datasets to train and evaluate on: CIFAR-10, or a folder of images.

Letters: N images of a set, S image side in pixels.
"""

import os
import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vitdemo.data import cifar10
from vitdemo.data.cifar10 import CLASSES as CIFAR10_CLASSES
from vitdemo.data.cifar10.download import DOWNLOAD_LOCK_FILE, download_cifar10
from vitdemo.data.downloads import OnBytes
from vitdemo.data.image_files import crop_and_resize, load_image, printable_name, to_uint8
from vitdemo.data.image_folders import (
    count_shared_files,
    describe_skipped,
    find_part_folder,
    format_some_names,
    is_image_name,
    is_system_name,
    list_class_content,
    list_class_folders,
    list_folders_with_images,
    list_loose_files,
)
from vitdemo.data.labelled_images import LabelledImages
from vitdemo.errors import DataError, ImageError
from vitdemo.installation import TRAIN_COMMAND
from vitdemo.paths import expand_path

MISSING_DATASET = "There is no dataset"  # start of a message that the page replaces by a button
DEFAULT_ROOT = "data"  # folder in the current folder
DATASET_PARTS = ("train", "test")
VALIDATION_PART = "validation"  # optional validation set in an image folder


@dataclass(frozen=True)
class ImageDataset:
    """A dataset: location and classes, and methods that read the images."""

    name: str
    root: Path
    classes: tuple[str, ...]
    is_cifar10: bool = False

    def load(self, part: str, size: int = 32) -> LabelledImages:
        """Read the images of `part` ("train" or "test"); images of a folder are cropped to squares.

        Raises `DataError` for an unknown part or an unreadable image.
        """
        if part not in DATASET_PARTS:
            raise DataError(f"Unknown part '{part}' of a dataset. Choose 'train' or 'test'.")
        if self.is_cifar10:
            images, labels = cifar10.load_part(self.root, part)
            return LabelledImages(torch.from_numpy(images), torch.from_numpy(labels).long())
        return _load_files(self.list_files(part), size)

    def load_training_images(self, size: int = 32) -> tuple[LabelledImages, int]:
        """Return the images of train/ followed by those of val/, and the number of val/ images.

        Without val/, the number is 0, and the caller holds out a part of the training images.
        """
        train = self.load("train", size)
        if self.is_cifar10 or self.find_part(VALIDATION_PART) is None:
            return train, 0
        own = _load_files(self.list_files(VALIDATION_PART), size)
        images = torch.cat([train.images, own.images])
        return LabelledImages(images, torch.cat([train.labels, own.labels])), len(own)

    def find_part(self, part: str) -> Path | None:
        """Return the folder of `part` ("train", "test" or "validation"), or None if there is none.

        A validation folder without class folders has no labels, so it is not used.
        """
        folder = find_part_folder(self.root, part)
        is_usable = folder and (part != VALIDATION_PART or list_class_folders(folder))
        return folder if is_usable else None

    def check_images(self, part: str) -> None:
        """Check that every image of `part` can be read. Raises the same `DataError` as `load`."""
        if self.is_cifar10:
            self.load(part)
            return
        with ThreadPoolExecutor() as pool:
            for _ in pool.map(lambda file: bool(_read_file(file[0])), self.list_files(part)):
                pass  # images are not stored, because a large folder does not fit into memory

    def list_notes(self) -> list[str]:
        """Return messages about files and folders that are not used, and about the test set.

        The messages also report a folder val/, and images that are both in train/ and in test/.
        """
        if self.is_cifar10:
            return []
        skipped, loose, files = [], [], {}
        folders = {part: self.find_part(part) for part in (*DATASET_PARTS, VALIDATION_PART)}
        folders = {part: folder for part, folder in folders.items() if folder is not None}
        for part, folder in folders.items():
            files[part], left_out = _list_folder(folder, self.classes)
            skipped += [Path(path).relative_to(self.root).as_posix() for path in left_out]
            inner = folder.relative_to(self.root).as_posix()
            loose += [f"{inner}/{name}" for name in list_loose_files(folder)]
        tested = {label for _, label in files["test"]}
        outside = [name for name in loose if is_image_name(name)]
        skipped += [name for name in loose if not is_image_name(name)]
        untested = [name for i, name in enumerate(self.classes) if i not in tested]
        notes = [describe_skipped(skipped)] if skipped else []
        notes += self._describe_folders(folders)
        shared = count_shared_files(*([path for path, _ in files[p]] for p in DATASET_PARTS))
        if shared:
            images = "1 image is" if shared == 1 else f"{shared} images are"
            notes.append(f"{images} in train/ and in test/, so the test accuracy is too high.")
        if outside:
            images = "1 image" if len(outside) == 1 else f"{len(outside)} images"
            notes.append(
                f"Skipped {images} outside the class folders: {format_some_names(outside)}."
            )
        if untested:
            notes.append(f"test/ has no folder for these classes: {format_some_names(untested)}.")
        return notes

    def _describe_folders(self, folders: dict[str, Path]) -> list[str]:
        """Return messages about the validation set, and about folders that are not used."""
        notes = []
        if validation := folders.get(VALIDATION_PART):
            name = validation.relative_to(self.root).as_posix()
            notes.append(f"{name}/ is the validation set, so no training images are held out.")
        used = {folder.relative_to(self.root).parts[0] for folder in folders.values()}
        unused = [name for name in list_folders_with_images(self.root) if name not in used]
        if unused:
            notes.append(f"These folders with images are not used: {format_some_names(unused)}.")
        return notes

    def load_labels(self, part: str) -> Tensor:
        """Return the class indices (N,) int64 of `part` without reading images of a folder."""
        if self.is_cifar10:
            return self.load(part).labels
        return torch.tensor([label for _, label in self.list_files(part)])

    def load_subset(self, part: str, indices: Tensor, size: int = 32) -> LabelledImages:
        """Read only the images `indices` (M,) of `part`, in this order; see `load`."""
        if self.is_cifar10:
            return self.load(part).subset(indices)
        files = self.list_files(part)
        return _load_files([files[i] for i in indices.tolist()], size)

    def load_batches(self, part: str, size: int, count: int) -> Iterator[LabelledImages]:
        """Yield the images of `part` in batches of `count`, which saves memory; see `load`."""
        whole = self.load(part) if self.is_cifar10 else None
        for indices in torch.arange(len(self.load_labels(part))).split(count):
            yield whole.subset(indices) if whole else self.load_subset(part, indices, size)

    def list_files(self, part: str) -> list[tuple[str, int]]:
        """Return (file, class index) for each image in a folder's `part` without reading images.

        Raises `DataError` if a class folder contains no images, or its class is not in train/.
        """
        folder = self.find_part(part)
        if folder is None:
            raise DataError(f"'{self.root}' has no {part}/. Add this folder.")
        return _list_folder(folder, self.classes)[0]


def default_root() -> Path:
    """Return the default dataset folder: `VITDEMO_DATA`, or `data` in the current folder."""
    return expand_path(os.environ.get("VITDEMO_DATA") or DEFAULT_ROOT)


def find_dataset(root: Path | str | None = None) -> ImageDataset:
    """Find the dataset to train or evaluate on.

    CIFAR-10 is downloaded automatically only into the default folder `data`. A folder that is set
    by `root` or `VITDEMO_DATA` must exist, so that a typing error does not train on CIFAR-10.
    """
    return open_dataset(root, download=root is None and not os.environ.get("VITDEMO_DATA"))


def open_dataset(
    root: Path | str | None = None,
    *,
    download: bool = False,
    on_bytes: OnBytes | None = None,
) -> ImageDataset:
    """Open the dataset in `root`. With `download`, CIFAR-10 is downloaded if there is none.

    `on_bytes(done, total)` is called during each file's download, and may raise `Stopped` to stop
    it. The next call resumes the download. Raises `DataError` if `root` contains no dataset, or if
    the download fails.
    """
    root = Path(root) if root is not None else default_root()
    train = find_part_folder(root, "train")
    if train is not None:
        if find_part_folder(root, "test") is None:
            raise DataError(f"'{root}' has {train.name}/ but no test/. Add the folder test/.")
        classes = tuple(list_class_folders(train))
        if len(classes) < 2:
            raise DataError(
                f"'{train}' contains {len(classes)} class folders, but a classifier needs "
                "at least two. Put the images into one folder per class."
            )
        return ImageDataset(root.resolve().name, root, classes)
    if cifar10.find_folder(root) is None:
        other = root.is_file() or (root.is_dir() and _has_foreign_files(root))
        # Another process may have created the folder meanwhile.
        if other and cifar10.find_folder(root) is None:
            raise DataError(
                f"'{root}' contains neither CIFAR-10 ({cifar10.OFFICIAL_FOLDER}/ or "
                f"{cifar10.ARRAYS_FOLDER}/) nor image folders train/<class>/ and test/<class>/. "
                "Set --data to another folder."
            )
        if not download:
            state = "is empty" if root.is_dir() else "does not exist"
            named = "" if root == default_root() else f" --data {shlex.quote(str(root))}"
            raise DataError(
                f"{MISSING_DATASET}: '{root}' {state}. Set --data to a folder with train/<class>/ "
                "and test/<class>/ images, or download CIFAR-10 with "
                f"`{TRAIN_COMMAND} download{named}`."
            )
        download_cifar10(root, on_bytes)
    return ImageDataset("cifar10", root, CIFAR10_CLASSES, is_cifar10=True)


def is_dataset_missing(root: Path | str | None = None) -> bool:
    """Return whether `root` is missing or empty, so that CIFAR-10 can be downloaded to `root`."""
    root = Path(root) if root is not None else default_root()
    return not root.exists() or (root.is_dir() and not _has_foreign_files(root))


def _has_foreign_files(root: Path) -> bool:
    """Return whether `root` contains files other than an incomplete download of CIFAR-10."""
    parts = (cifar10.ARCHIVE_FILE, cifar10.PARTIAL_FOLDER, DOWNLOAD_LOCK_FILE)
    names = (entry.name for entry in root.iterdir())
    return any(name not in parts and not is_system_name(name) for name in names)


def _list_folder(folder: Path, classes: tuple[str, ...]) -> tuple[list[tuple[str, int]], list[str]]:
    """Return (file, class index) of each image, and the skipped files. Raises `DataError`."""
    found = list_class_folders(folder)
    strangers = sorted(set(found) - set(classes))
    if strangers:
        raise DataError(
            f"'{folder}' contains the class '{strangers[0]}', but train/ does not. Remove the "
            "class, or add it to train/."
        )
    if not found:
        raise DataError(f"'{folder}' contains no images. Put them into {folder}/<class>/.")
    files, skipped, owners = [], [], {}
    for label, name in enumerate(classes):
        content = list_class_content(found.get(name, ()))
        if name in found and not content.images:
            left_out = describe_skipped(Path(path).name for path in content.skipped)
            raise DataError(
                f"The class '{name}' has no images in '{found[name][0]}'. Add images or remove the "
                f"folder. {left_out}".rstrip()
            )
        for identity, place in content.folders.items():
            if owners.setdefault(identity, name) != name:
                raise DataError(
                    f"'{place}' belongs to two classes, '{owners[identity]}' and '{name}'. Remove "
                    "one of the links to this folder."
                )
        files += [(path, label) for path in content.images]
        skipped += content.skipped
    return files, skipped


def _load_files(files: list[tuple[str, int]], size: int) -> LabelledImages:
    with ThreadPoolExecutor() as pool:  # Pillow releases the interpreter lock while decoding.
        images = pool.map(lambda file: to_uint8(crop_and_resize(_read_file(file[0]), size)), files)
        pixels = np.stack([*images])  # (N, 3, S, S)
    return LabelledImages(torch.from_numpy(pixels), torch.tensor([label for _, label in files]))


def _read_file(path: str) -> Image.Image:
    try:
        return load_image(path)
    except ImageError as error:
        reason = str(error).removeprefix(f"'{printable_name(path)}' ")
        raise DataError(f"'{path}' {reason}") from error
