"""The data set as uint8 tensors: CIFAR-10 or any folder of pictures, its split and normalisation.

Shapes: B pictures of a batch, N pictures of a set, S their side in pixels. A set is small enough
to be one (N, 3, S, S) uint8 tensor in memory (CIFAR-10: 184 MB), so no loader, no workers.
"""

import hashlib
import math
import os
import shlex
import shutil
import threading
from collections.abc import Sequence
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
from torchvision.datasets import CIFAR10

from vitdemo import cifar10
from vitdemo.cifar10 import CLASSES as CIFAR10_CLASSES
from vitdemo.downloads import OnBytes
from vitdemo.errors import DataError, ImageError, Stopped
from vitdemo.image_folders import (
    class_folders,
    describe_skipped,
    is_image_name,
    is_system_name,
    list_content,
    loose_files,
    name_some,
)
from vitdemo.inputs import load_image, square_crop, to_uint8, visible_square

# Over all pixels of the 50,000 training pictures. The std (0.2023, 0.1994, 0.2010) that many
# repositories carry is the mean of the per-picture stds, which is smaller.
CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
LOCK = ".cifar10.lock"  # below the root: who has it downloads
PARTS = ("train", "test")


@dataclass(frozen=True)
class Pictures:
    """Pictures and their classes: `images` (N, 3, S, S) uint8, `labels` (N,) int64."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, indices: Tensor) -> "Pictures":
        return Pictures(self.images[indices], self.labels[indices])

    def to(self, device: torch.device) -> "Pictures":
        return Pictures(self.images.to(device), self.labels.to(device))


@dataclass(frozen=True)
class Source:
    """Where a data set lies, and what can be said of it before a picture is read."""

    name: str
    root: Path
    classes: tuple[str, ...]
    is_cifar10: bool = False

    def load(self, part: str, size: int = 32) -> Pictures:
        """Read `part` ("train" or "test"); a folder's pictures become size x size squares.

        Raises `DataError` naming the part or the picture that cannot be read.
        """
        if part not in PARTS:
            raise DataError(f"Unknown part '{part}' of a data set: choose 'train' or 'test'.")
        if self.is_cifar10:
            return _load_cifar10(self.root, part)
        return _load_files(self.files(part), size)

    def check(self, part: str) -> None:
        """Read every image of `part` and keep none of them.

        Raises `DataError` as `load` does: a class or an image that cannot be used is named.
        """
        if self.is_cifar10:
            self.load(part)
            return
        with ThreadPoolExecutor() as pool:
            for _ in pool.map(lambda file: bool(_read_file(file[0])), self.files(part)):
                pass  # the images of a large folder would not fit into memory

    def notes(self) -> list[str]:
        """Return a sentence for each kind of file or class that `load` leaves out of a folder."""
        if self.is_cifar10:
            return []
        parts = {part: _list_folder(self.root / part, self.classes) for part in PARTS}
        loose = [f"{part}/{name}" for part in PARTS for name in loose_files(self.root / part)]
        inside = [Path(path).relative_to(self.root).as_posix()
                  for found in parts.values() for path in found.skipped]  # fmt: skip
        outside = [name for name in loose if is_image_name(name)]
        inside += [name for name in loose if not is_image_name(name)]
        untested = [c for i, c in enumerate(self.classes) if i not in parts["test"].labels]
        notes = [describe_skipped(inside)]
        if outside:
            images = "1 image" if len(outside) == 1 else f"{len(outside)} images"
            notes.append(f"Skipped {images} outside the class folders: {name_some(outside)}.")
        if untested:
            notes.append(f"test/ has no folder for these classes: {name_some(untested)}.")
        return [note for note in notes if note]

    def labels(self, part: str) -> Tensor:
        """Class of each picture of `part`, (N,) int64; a folder's pictures are not read for it."""
        if self.is_cifar10:
            return self.load(part).labels
        return torch.tensor([label for _, label in self.files(part)])

    def load_some(self, part: str, indices: Tensor, size: int = 32) -> Pictures:
        """The pictures `indices` (M,) of `part` alone, in that order, as `load` gives them."""
        if self.is_cifar10:
            return self.load(part).subset(indices)
        files = self.files(part)
        return _load_files([files[i] for i in indices.tolist()], size)

    def files(self, part: str) -> list[tuple[str, int]]:
        """Return (file, class index) of each image of a folder's `part`, none of them read.

        Raises `DataError` if a class has a folder without images, or is not in train/.
        """
        return _list_folder(self.root / part, self.classes).files


def default_root() -> Path:
    """`VITDEMO_DATA`, or `data` below the current folder."""
    return Path(os.environ.get("VITDEMO_DATA") or "data")


def find_source(root: Path | str | None = None) -> Source:
    """Find the dataset to train or evaluate on.

    Only the default folder `data` gets CIFAR-10 by itself. A folder that somebody named, with
    `root` or in `VITDEMO_DATA`, has to exist: else a typing error would train on CIFAR-10.
    """
    return open_source(root, download=root is None and not os.environ.get("VITDEMO_DATA"))


def open_source(
    root: Path | str | None = None,
    *,
    download: bool = False,
    on_bytes: OnBytes | None = None,
) -> Source:
    """Find the dataset in `root`; with `download`, an absent or empty `root` gets CIFAR-10.

    `on_bytes(done, total)` is called during each file's download and may raise `Stopped` to end it;
    the next download continues there. Raises `DataError` if `root` does not exist or holds
    something else, or if the download is not possible.
    """
    root = Path(root) if root is not None else default_root()
    if (root / "train").is_dir():
        if not (root / "test").is_dir():
            raise DataError(f"'{root}' has train/ but no test/: a data set needs both.")
        return Source(root.resolve().name, root, _folder_classes(root / "train"))
    base = root / CIFAR10.base_folder
    if not base.is_dir():
        other = root.is_file() or (root.is_dir() and _holds_something_else(root))
        if other and not base.is_dir():  # which another process may just have built
            raise DataError(
                f"'{root}' holds neither {CIFAR10.base_folder}/ nor train/<class>/ and "
                "test/<class>/ folders of pictures: pass --data a folder that does."
            )
        if not download:
            raise DataError(_absent(root))
        _download_cifar10(root, on_bytes)
    return Source("cifar10", root, CIFAR10_CLASSES, is_cifar10=True)


def _absent(root: Path) -> str:
    """Return the sentence for a `root` that holds nothing yet."""
    state = "is empty" if root.is_dir() else "does not exist"
    named = "" if root == default_root() else f" --data {shlex.quote(str(root))}"
    return (
        f"There is no dataset: '{root}' {state}. Pass --data a folder of train/<class>/ and "
        f"test/<class>/ images, or download CIFAR-10 with `python train.py download{named}` or in "
        "the page's tab Data."
    )


def is_absent(root: Path | str | None = None) -> bool:
    """Whether `root` holds nothing yet, so that CIFAR-10 can be downloaded into it."""
    root = Path(root) if root is not None else default_root()
    return not root.exists() or (root.is_dir() and not _holds_something_else(root))


def _holds_something_else(root: Path) -> bool:
    """Whether more lies there than the parts of a download that broke off, to be gone on with."""
    parts = (CIFAR10.filename, cifar10.PARTS, LOCK)
    names = (entry.name for entry in root.iterdir())
    return any(name not in parts and not is_system_name(name) for name in names)


def _download_cifar10(root: Path, on_bytes: OnBytes | None) -> None:
    """From the Hub, and where that cannot be reached from CIFAR-10's own site, which is slow."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        # One at a time, of all processes: they would build it in one place.
        alone = FileLock(root / LOCK).acquire()
    except OSError as error:
        raise DataError(
            f"'{root}' cannot be written to ({_one_line(error)}): pass --data another folder."
        ) from error
    with alone:
        if not (root / CIFAR10.base_folder).is_dir():
            _download_alone(root, on_bytes)
    with suppress(OSError):  # on Windows, of whoever waits for it; they find the data set
        (root / LOCK).unlink()


def _download_alone(root: Path, on_bytes: OnBytes | None) -> None:
    try:
        cifar10.fetch(root, on_bytes)
    except (DataError, Stopped):
        raise
    except Exception as unreached:  # httpx, huggingface_hub, disk: all end in the same way out
        try:
            cifar10.fetch_from_its_site(root, on_bytes)
        except Stopped:
            raise
        except Exception as error:  # httpx, tarfile, torchvision's own
            _remove_empty(root / cifar10.PARTS, root)
            raise DataError(
                f"CIFAR-10 could not be downloaded into '{root}', neither from the Hugging Face "
                f"Hub ({_one_line(unreached)}) nor from its own site ({_one_line(error)}): check "
                "the network, or pass --data a folder that holds it or your own train/<class>/ and "
                "test/<class>/ pictures."
            ) from error


def _one_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


def _remove_empty(*folders: Path) -> None:
    """Leave no folder behind where nothing was fetched."""
    for folder in folders:
        if folder.is_dir() and not any(
            file.is_file() and file.stat().st_size for file in folder.rglob("*")
        ):
            shutil.rmtree(folder, ignore_errors=True)  # on Windows the lock in it stays


def _load_cifar10(root: Path, part: str) -> Pictures:
    try:
        raw = CIFAR10(str(root), train=part == "train", download=False)
    except Exception as error:  # torchvision raises bare RuntimeError, pickle whatever it likes
        raise DataError(
            f"CIFAR-10 in '{root}' is incomplete or damaged: delete "
            f"'{root / CIFAR10.base_folder}' and let it be downloaded again."
        ) from error
    images = torch.from_numpy(raw.data).permute(0, 3, 1, 2).contiguous()  # (N, 3, 32, 32)
    return Pictures(images, torch.tensor(raw.targets))


def _folder_classes(folder: Path) -> tuple[str, ...]:
    classes = tuple(class_folders(folder))
    if len(classes) < 2:
        raise DataError(
            f"'{folder}' holds {len(classes)} class folders, and a classifier needs at least two: "
            "put the images into one folder for each class."
        )
    return classes


@dataclass(frozen=True)
class _Listing:
    """(file, class index) of each image of one part, and the files that are not images."""

    files: list[tuple[str, int]]
    skipped: list[str]

    @property
    def labels(self) -> set[int]:
        return {label for _, label in self.files}


def _list_folder(folder: Path, classes: tuple[str, ...]) -> _Listing:
    """List one part. Raises `DataError` if an image has no class or a class has no image."""
    found = class_folders(folder)
    strangers = sorted(set(found) - set(classes))
    if strangers:
        raise DataError(f"'{folder}' holds a class that train/ does not: '{strangers[0]}'.")
    if not found:
        raise DataError(f"'{folder}' holds no images: put them into {folder}/<class>/.")
    files, skipped, owners = [], [], {}
    for label, name in enumerate(classes):
        content = list_content(found.get(name, ()))
        if name in found and not content.images:
            left_out = describe_skipped(Path(path).name for path in content.skipped)
            raise DataError(
                f"The class '{name}' has no images in '{found[name][0]}': add some or remove the "
                f"folder. {left_out}".rstrip()
            )
        for identity, place in content.folders.items():
            if owners.setdefault(identity, name) != name:
                raise DataError(
                    f"'{place}' belongs to two classes, '{owners[identity]}' and '{name}': remove "
                    "one of the links to it."
                )
        files += [(path, label) for path in content.images]
        skipped += content.skipped
    return _Listing(files, skipped)


def _load_files(files: list[tuple[str, int]], size: int) -> Pictures:
    with ThreadPoolExecutor() as pool:  # decoding releases the interpreter lock
        images = list(pool.map(lambda file: _read_square(file[0], size), files))
    return Pictures(torch.from_numpy(np.stack(images)), torch.tensor([label for _, label in files]))


def _read_square(path: str, size: int) -> np.ndarray:
    return to_uint8(square_crop(_read_file(path), size))  # (3, S, S)


def _read_file(path: str) -> Image.Image:
    try:
        return load_image(path)
    except ImageError as error:
        raise DataError(f"'{path}' cannot be used: {error}") from error


def stratified_split(
    labels: Tensor, held_out: float | int, seed: int, classes: Sequence[str] = ()
) -> tuple[Tensor, Tensor]:
    """Split N images into (kept, held out) indices, each class in proportion, both sorted.

    Every class is in both parts. If `held_out` is too small or too large for that, more or fewer
    images are held out.

    Args:
        labels: (N,) int64.
        held_out: fraction (float) or number (int) of images to hold out.
        seed: the same seed gives the same split on every machine.
        classes: the names of the labels, for the message of an error.

    Raises `DataError` for a class with a single image, which cannot be in both parts.
    """
    values = labels.numpy()
    C, N = _check_pairs(values, classes), len(values)
    wanted = math.ceil(held_out * N) if isinstance(held_out, float) else held_out
    split = _scikit_learn_split(values, held_out, seed)
    if split is not None:
        missing = [C - len(np.unique(values[part])) for part in split]  # of kept and of held out
        if not any(missing):
            return torch.from_numpy(split[0]), torch.from_numpy(split[1])
        wanted += missing[1] - missing[0]
    place = _with_every_class(values, _places(values, seed), leave_one=True)
    order = np.argsort(place, kind="stable")
    held = min(max(wanted, C), N - C)
    kept, held = np.sort(order[held:]), np.sort(order[:held])
    return torch.from_numpy(kept), torch.from_numpy(held)


def stratified_subset(labels: Tensor, count: int, seed: int) -> Tensor:
    """Choose `count` of N images, each class in proportion and none left out: sorted indices.

    Raises `DataError` if there are more classes than that.
    """
    values = labels.numpy()
    C = len(np.unique(values))
    if count < C:
        raise DataError(
            f"train_pictures is {count}, fewer than the {C} classes: choose --train-pictures {C} "
            "or more, or 0 for all."
        )
    split = _scikit_learn_split(values, len(values) - count, seed)
    if split is not None and len(np.unique(values[split[0]])) == C:
        return torch.from_numpy(split[0])
    place = _with_every_class(values, _places(values, seed))
    return torch.from_numpy(np.sort(np.argsort(place, kind="stable")[:count]))


def _check_pairs(labels: np.ndarray, classes: Sequence[str]) -> int:
    """Return the number of classes. Raises `DataError` if one of them has a single image."""
    found, counts = np.unique(labels, return_counts=True)
    single = [str(classes[label] if classes else label) for label in found[counts == 1]]
    if single:
        raise DataError(
            "Every class needs at least two training images, one of them for validation. Classes "
            f"with a single image: {name_some(single)}."
        )
    return len(found)


def _scikit_learn_split(
    labels: np.ndarray, held_out: float | int, seed: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return (kept, held out) as scikit-learn draws them; None if it refuses.

    The splits of all runs so far are scikit-learn's. It refuses a part that is smaller than the
    number of classes, and may leave small classes out of the smaller part.
    """
    from sklearn.model_selection import train_test_split  # 1.5 s that the page need not wait for

    try:
        parts = train_test_split(
            np.arange(len(labels)), test_size=held_out, stratify=labels, random_state=seed
        )
    except ValueError:
        return None
    return np.sort(parts[0]), np.sort(parts[1])


def _with_every_class(
    labels: np.ndarray, place: np.ndarray, *, leave_one: bool = False
) -> np.ndarray:
    """Return `place` with one image of each class moved to the front, and another to the end."""
    moved = place.copy()
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        moved[members[place[members].argmin()]] = -1
        if leave_one:
            moved[members[place[members].argmax()]] = 2
    return moved


def stratified(labels: np.ndarray, count: int, seed: int = 0) -> np.ndarray:
    """Indices of `count` of the `labels` (of all where there are fewer), sorted.

    Each class has its share of all, within one picture; unlike scikit-learn's split this takes
    classes of any size.
    """
    return np.sort(np.argsort(_places(labels, seed), kind="stable")[:count])


def _places(labels: np.ndarray, seed: int) -> np.ndarray:
    """Return a place in 0..1 for each of N images: its rank in a random order of its class."""
    random = np.random.default_rng(seed)
    place = np.empty(len(labels))
    for label in np.unique(labels):
        members = random.permutation(np.flatnonzero(labels == label))
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    return place


def fingerprint(pictures: Pictures, classes: tuple[str, ...]) -> str:
    """16 hexadecimal digits that differ as soon as a pixel, a label, the order or a name does."""
    digest = hashlib.blake2b("\0".join(classes).encode(), digest_size=8)
    digest.update(pictures.labels.cpu().numpy().tobytes())
    digest.update(pictures.images.cpu().numpy().tobytes())
    return digest.hexdigest()


def pixel_statistics(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel over (N, 3, S, S) uint8 pixels, in 0..1."""
    total, square = torch.zeros(2, 3, dtype=torch.float64)
    count = 0
    for part in images.split(1024):
        values = part.double().transpose(0, 1).flatten(1) / 255  # (3, B*S*S)
        total += values.sum(1)
        square += values.square().sum(1)
        count += values.shape[1]
    mean = total / count
    std = (square / count - mean.square()).clamp_min(1e-6).sqrt()
    return tuple(round(v, 4) for v in mean.tolist()), tuple(round(v, 4) for v in std.tolist())


def prepare(images: Tensor, size: int, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """uint8 squares -> what the model sees: resized (bicubic, antialiased) and normalised.

    Args:
        images: (B, 3, S, S), uint8 or float in 0..255.
        size: side of the model's input in pixels.
        mean, std: of each channel, in 0..1.

    Returns (B, 3, size, size) float32. Equals `inputs.square_crop` within one grey level.
    """
    pixels = images.float()
    if pixels.shape[-1] != size:
        pixels = F.interpolate(pixels, (size, size), mode="bicubic", antialias=True).clamp(0, 255)
    shift, scale = _grey_levels(mean, images.device), _grey_levels(std, images.device)
    return (pixels - shift) / scale  # (B, 3, size, size)


@lru_cache(maxsize=32)  # a copy to the device makes the host wait for all that runs there
@torch.inference_mode(False)
def _grey_levels(channels: tuple[float, ...], device: torch.device) -> Tensor:
    return 255 * torch.tensor(channels, device=device).view(3, 1, 1)


class SyntheticSource(Source):
    """Pictures that are drawn, not read: what `--smoke` learns in seconds."""

    def load(self, part: str, size: int = 32) -> Pictures:
        return synthetic(len(self.classes), seed=int(part == "test"))

    def check(self, part: str) -> None:
        """Do nothing: synthetic images are always there."""

    def notes(self) -> list[str]:
        return []


SYNTHETIC = SyntheticSource("synthetic", Path(), ("one", "two", "three", "four"))


def synthetic(classes: int = 4, each: int = 24, size: int = 32, seed: int = 0) -> Pictures:
    """Coloured stripes on noise; a class has its angle and colour, and `seed` draws the noise."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat(each)  # (N,)
    rows, columns = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    angle = labels * torch.pi / classes
    wave = torch.sin(
        (angle.cos().view(-1, 1, 1) * columns + angle.sin().view(-1, 1, 1) * rows) * 0.8
    )  # (N, S, S)
    colour = torch.rand(classes, 3, 1, 1, generator=torch.Generator().manual_seed(0))[labels]
    noise = 0.2 * torch.randn(len(labels), 3, size, size, generator=generator)
    images = 255 * (0.5 + 0.4 * wave[:, None] * colour + noise).clamp(0, 1)
    return Pictures(images.to(torch.uint8), labels)


@dataclass(frozen=True)
class TestPicture:
    """One picture of the test set, and its true class."""

    image: Image.Image
    label: str


class TestSet:
    """The test pictures of `source`, one at a time: a folder's are read when they are asked for."""

    def __init__(self, source: Source):
        self.classes = source.classes
        self._source = source
        self._pictures = source.load("test") if source.is_cifar10 else None
        self._files = [] if source.is_cifar10 else source.files("test")
        self._squares: dict[int, tuple[Pictures, str]] = {}  # by side, with the fingerprint
        self._square_lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._pictures or self._files)

    def __getitem__(self, index: int) -> TestPicture:
        """Raises `DataError` naming the range, `ImageError` for a file that is no picture."""
        if not 0 <= index < len(self):
            raise DataError(f"There is no test picture {index}: choose 0 to {len(self) - 1}.")
        if self._pictures:
            pixels = self._pictures.images[index].permute(1, 2, 0).numpy()  # (S, S, 3)
            image, label = Image.fromarray(pixels), int(self._pictures.labels[index])
        else:
            path, label = self._files[index]
            image = visible_square(load_image(path))
        return TestPicture(image, self.classes[label])

    def squares(self, side: int) -> tuple[Pictures, str]:
        """All pictures as a run of this input size was tested on them, and their fingerprint.

        CIFAR-10's keep their own side. Read once: a large folder takes its time, the first time.
        Raises `DataError` naming a file that is no picture.
        """
        with self._square_lock:
            side = 0 if self._pictures else side
            if side not in self._squares:
                pictures = self._pictures or self._source.load("test", side)
                self._squares[side] = (pictures, fingerprint(pictures, self.classes))
            return self._squares[side]
