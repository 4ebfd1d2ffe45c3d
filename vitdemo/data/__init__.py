"""Datasets as uint8 tensors: CIFAR-10 or a folder of images, with splits and normalisation.

Letters: B images of a batch, N images of a set, S image side in pixels. A set of images is stored
in memory as one (N, 3, S, S) uint8 tensor, so data loaders and workers are not needed.
"""

import hashlib
import math
import os
import shlex
import shutil
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from filelock import FileLock
from PIL import Image
from torch import Tensor

from vitdemo.data import cifar10
from vitdemo.data.cifar10 import CLASSES as CIFAR10_CLASSES
from vitdemo.data.downloads import OnBytes
from vitdemo.data.image_files import crop_and_resize, crop_visible_square, load_image, to_uint8
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
from vitdemo.errors import DataError, ImageError, Stopped, short_reason
from vitdemo.installation import TRAIN_COMMAND
from vitdemo.paths import expand_path

# Mean and standard deviation of all pixels of the training images. Many repositories instead use
# the mean of the images' standard deviations, (0.2023, 0.1994, 0.2010), which is smaller.
CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
MISSING_DATASET = "There is no dataset"  # start of a message that the page replaces by a button
NO_NETWORK_MESSAGE = (
    "CIFAR-10 could not be downloaded, because its servers cannot be reached. Check the network."
)
# Exceptions by name, because versions of huggingface_hub use requests, httpx or httpx2.
NETWORK_ERRORS = {
    *("ConnectError", "ConnectionError", "TimeoutException", "Timeout", "OfflineModeIsEnabled")
}
DEFAULT_ROOT = "data"  # folder in the current folder
DOWNLOAD_LOCK_FILE = ".cifar10.lock"  # file in the root that prevents concurrent downloads
DATASET_PARTS = ("train", "test")
VALIDATION_PART = "validation"  # optional validation set in an image folder


@dataclass(frozen=True)
class LabelledImages:
    """Images (N, 3, S, S) uint8 with class indices `labels` (N,) int64."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, indices: Tensor) -> "LabelledImages":
        return LabelledImages(self.images[indices], self.labels[indices])

    def to(self, device: torch.device) -> "LabelledImages":
        return LabelledImages(self.images.to(device), self.labels.to(device))


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
        _download_cifar10(root, on_bytes)
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


def _download_cifar10(root: Path, on_bytes: OnBytes | None) -> None:
    """Download CIFAR-10 into `root`, while other processes wait."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        alone = FileLock(root / DOWNLOAD_LOCK_FILE).acquire()
    except OSError as error:
        raise DataError(
            f"'{root}' cannot be written to ({short_reason(error)}). Set --data to another folder."
        ) from error
    with alone:
        if cifar10.find_folder(root) is None:
            _download_with_fallback(root, on_bytes)
    with suppress(OSError):  # On Windows, a waiting process may still have the file open.
        (root / DOWNLOAD_LOCK_FILE).unlink()


def _download_with_fallback(root: Path, on_bytes: OnBytes | None) -> None:
    """Download CIFAR-10 from the Hugging Face Hub. If this fails, use the slow official site."""
    try:
        cifar10.fetch_from_hub(root, on_bytes)
    except (DataError, Stopped):
        raise
    except Exception as unreached:  # an error of httpx, huggingface_hub or the disk
        try:
            cifar10.fetch_from_official_site(root, on_bytes)
        except Stopped:
            raise
        except Exception as error:  # an error of httpx or tarfile
            for folder in (root / cifar10.PARTIAL_FOLDER, root):
                _remove_if_empty(folder)
            if _is_network_error(unreached) and _is_network_error(error):
                raise DataError(NO_NETWORK_MESSAGE) from error
            raise DataError(
                f"CIFAR-10 could not be downloaded into '{root}', neither from the Hugging Face "
                f"Hub ({short_reason(unreached)}) nor from its own site ({short_reason(error)}). "
                "Check the network, or set --data to a folder with CIFAR-10 or with "
                "train/<class>/ and test/<class>/ images."
            ) from error


def _is_network_error(error: Exception) -> bool:
    return not NETWORK_ERRORS.isdisjoint(kind.__name__ for kind in type(error).__mro__)


def _remove_if_empty(folder: Path) -> None:
    if not any(file.is_file() and file.stat().st_size for file in folder.rglob("*")):
        # On Windows, an open lock file in the folder cannot be removed.
        shutil.rmtree(folder, ignore_errors=True)


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
        raise DataError(f"'{path}' cannot be used: {error}") from error


def stratified_split(
    labels: Tensor, held_out: float | int, seed: int, classes: Sequence[str] = ()
) -> tuple[Tensor, Tensor]:
    """Split N images into sorted (kept, held out) indices, stratified by class.

    Both parts contain every class. If this requires more or fewer held-out images than `held_out`,
    their number is adjusted.

    Args:
        labels: (N,) int64.
        held_out: fraction (float) or number (int) of images to hold out.
        seed: the same seed gives the same split on every machine.
        classes: the class names, for error messages.

    Raises `DataError` for a class with a single image, because the image cannot be in both parts.
    """
    values = labels.numpy()
    found, counts = np.unique(values, return_counts=True)
    single = [str(classes[label] if classes else label) for label in found[counts == 1]]
    if single:
        raise DataError(
            "Every class needs at least two training images, because one is used for validation. "
            f"Add images to the classes with a single image: {format_some_names(single)}."
        )
    C, N = len(found), len(values)
    wanted = math.ceil(held_out * N) if isinstance(held_out, float) else held_out
    split = _scikit_learn_split(values, held_out, seed)
    if split is not None:
        missing = [C - len(np.unique(values[part])) for part in split]  # missing classes
        if not any(missing):
            return torch.from_numpy(split[0]), torch.from_numpy(split[1])
        wanted += missing[1] - missing[0]
    place = _move_one_per_class_first(values, seed, move_one_last=True)
    order = np.argsort(place, kind="stable")
    held = min(max(wanted, C), N - C)
    kept, held = np.sort(order[held:]), np.sort(order[:held])
    return torch.from_numpy(kept), torch.from_numpy(held)


def stratified_subset(labels: Tensor, count: int, seed: int) -> Tensor:
    """Draw `count` of N images, stratified, with at least one per class; return sorted indices.

    Raises `DataError` if there are more than `count` classes.
    """
    values = labels.numpy()
    C = len(np.unique(values))
    if count < C:
        raise DataError(
            f"--train-images is {count}, fewer than the {C} classes. Choose --train-images {C} or "
            "more, or 0 for all."
        )
    split = _scikit_learn_split(values, len(values) - count, seed)
    if split is not None and len(np.unique(values[split[0]])) == C:
        return torch.from_numpy(split[0])
    place = _move_one_per_class_first(values, seed)
    return torch.from_numpy(np.sort(np.argsort(place, kind="stable")[:count]))


def _scikit_learn_split(
    labels: np.ndarray, held_out: float | int, seed: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return scikit-learn's split (kept, held out), or None if it raises an error.

    Existing runs use scikit-learn's splits. scikit-learn rejects a part that is smaller than the
    number of classes. In its splits, the smaller part can lack small classes.
    """
    from sklearn.model_selection import train_test_split  # the import takes 1.5 s

    try:
        parts = train_test_split(
            np.arange(len(labels)), test_size=held_out, stratify=labels, random_state=seed
        )
    except ValueError:
        return None
    return np.sort(parts[0]), np.sort(parts[1])


def _move_one_per_class_first(
    labels: np.ndarray, seed: int, *, move_one_last: bool = False
) -> np.ndarray:
    """Rank images within classes; one image per class gets -1 and, if asked, another one gets 2."""
    place = _rank_within_classes(labels, seed)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        first, last = members[place[members].argmin()], members[place[members].argmax()]
        place[first] = -1
        if move_one_last:
            place[last] = 2
    return place


def sample_stratified(labels: np.ndarray, count: int) -> np.ndarray:
    """Draw up to `count` of the `labels` (N,), stratified by class; return sorted indices.

    The proportion of each class is exact within one image. Unlike scikit-learn's split, this
    function accepts classes of any size.
    """
    return np.sort(np.argsort(_rank_within_classes(labels, seed=0), kind="stable")[:count])


def _rank_within_classes(labels: np.ndarray, seed: int) -> np.ndarray:
    """Return the relative rank (N,), 0 to 1, of each image in a random order of its class."""
    random = np.random.default_rng(seed)
    place = np.empty(len(labels))
    for label in np.unique(labels):
        members = random.permutation(np.flatnonzero(labels == label))
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    return place


def compute_fingerprint(pictures: LabelledImages, classes: tuple[str, ...]) -> str:
    """Return a hash of pixels, labels, order and class names: 16 hexadecimal digits."""
    digest = hashlib.blake2b("\0".join(classes).encode(), digest_size=8)
    digest.update(pictures.labels.cpu().numpy().tobytes())
    digest.update(pictures.images.cpu().numpy().tobytes())
    return digest.hexdigest()


def pixel_statistics(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Compute mean and standard deviation per channel of (N, 3, S, S) uint8 pixels, 0 to 1."""
    total, square = torch.zeros(2, 3, dtype=torch.float64)
    for part in images.split(1024):
        values = part.double().transpose(0, 1).flatten(1) / 255  # (3, B*S*S)
        total += values.sum(1)
        square += values.square().sum(1)
    mean, square = total * 3 / images.numel(), square * 3 / images.numel()
    std = (square - mean.square()).clamp_min(1e-6).sqrt()
    return tuple(round(v, 4) for v in mean.tolist()), tuple(round(v, 4) for v in std.tolist())


def preprocess_images(
    images: Tensor, size: int, mean: tuple[float, ...], std: tuple[float, ...]
) -> Tensor:
    """Convert square images to the model input: resized (bicubic, antialiased) and normalised.

    Args:
        images: (B, 3, S, S), uint8 or float, 0 to 255.
        size: width of the model input in pixels.
        mean, std: values per channel, for pixels in 0 to 1.

    Returns (B, 3, size, size) float32, as from `image_files.crop_and_resize` (within a grey level).
    """
    pixels = images.float()
    if pixels.shape[-1] != size:
        pixels = F.interpolate(pixels, (size, size), mode="bicubic", antialias=True).clamp(0, 255)
    shift, scale = _grey_levels(mean, images.device), _grey_levels(std, images.device)
    return (pixels - shift) / scale  # (B, 3, size, size)


@lru_cache(maxsize=32)  # A new copy to the device would wait for all queued work.
@torch.inference_mode(False)
def _grey_levels(channels: tuple[float, ...], device: torch.device) -> Tensor:
    return 255 * torch.tensor(channels, device=device).view(3, 1, 1)


class SyntheticDataset(ImageDataset):
    """Synthetic images of stripes for `--smoke`, which a model learns in seconds."""

    def find_part(self, part: str) -> None:
        return None

    def load(self, part: str, size: int = 32) -> LabelledImages:
        return make_synthetic_images(len(self.classes), seed=int(part == "test"))

    def check_images(self, part: str) -> None:
        """Do nothing, because synthetic images are never invalid."""

    def list_notes(self) -> list[str]:
        return []


SYNTHETIC_DATASET = SyntheticDataset("synthetic", Path(), ("one", "two", "three", "four"))


def make_synthetic_images(
    num_classes: int = 4, images_per_class: int = 24, size: int = 32, seed: int = 0
) -> LabelledImages:
    """Draw coloured stripes with noise: angle and colour by class, noise by `seed`."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(num_classes).repeat(images_per_class)  # (N,)
    rows, columns = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    angle = labels * torch.pi / num_classes
    wave = torch.sin(
        (angle.cos().view(-1, 1, 1) * columns + angle.sin().view(-1, 1, 1) * rows) * 0.8
    )  # (N, S, S)
    colour = torch.rand(num_classes, 3, 1, 1, generator=torch.Generator().manual_seed(0))[labels]
    noise = 0.2 * torch.randn(len(labels), 3, size, size, generator=generator)
    images = 255 * (0.5 + 0.4 * wave[:, None] * colour + noise).clamp(0, 1)
    return LabelledImages(images.to(torch.uint8), labels)


@dataclass(frozen=True)
class TestImage:
    """One image of the test set with the name of its true class."""

    image: Image.Image
    label: str


class TestSet:
    """The test images of a dataset. Images of a folder are read one by one, on request."""

    def __init__(self, dataset: ImageDataset):
        self.classes = dataset.classes
        self._dataset = dataset
        self._images = dataset.load("test") if dataset.is_cifar10 else None
        self._files = [] if dataset.is_cifar10 else dataset.list_files("test")
        # image side -> images and fingerprint
        self._squares: dict[int, tuple[LabelledImages, str]] = {}
        self._squares_lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._images or self._files)

    def __getitem__(self, index: int) -> TestImage:
        """Return the test image `index`. Raises `DataError` or, for a bad file, `ImageError`."""
        if not 0 <= index < len(self):
            raise DataError(f"There is no test image {index}. Choose 0 to {len(self) - 1}.")
        if self._images:
            pixels = self._images.images[index].permute(1, 2, 0).numpy()  # (S, S, 3)
            image, label = Image.fromarray(pixels), int(self._images.labels[index])
        else:
            path, label = self._files[index]
            image = crop_visible_square(load_image(path))
        return TestImage(image, self.classes[label])

    def load_crops(self, side: int) -> tuple[LabelledImages, str]:
        """Return the square crops of all test images, of width `side`, and their fingerprint.

        CIFAR-10 images keep their size. The first call for a large folder is slow, because all
        images are read. Raises `DataError` for an invalid image file.
        """
        with self._squares_lock:
            side = 0 if self._images else side
            if side not in self._squares:
                pictures = self._images or self._dataset.load("test", side)
                self._squares[side] = (pictures, compute_fingerprint(pictures, self.classes))
            return self._squares[side]
