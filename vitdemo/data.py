"""The data set as uint8 tensors: CIFAR-10 or any folder of pictures, its split and normalisation.

Shapes: B pictures of a batch, N pictures of a set, S their side in pixels. A set is small enough
to be one (N, 3, S, S) uint8 tensor in memory (CIFAR-10: 184 MB), so no loader, no workers.
"""

import hashlib
import os
import shutil
import threading
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
from torchvision.datasets.folder import IMG_EXTENSIONS, make_dataset

from vitdemo import cifar10
from vitdemo.cifar10 import CLASSES as CIFAR10_CLASSES
from vitdemo.downloads import OnBytes
from vitdemo.errors import DataError, ImageError, Stopped
from vitdemo.inputs import load_image, square_crop, to_uint8, visible_square

# Over all pixels of the 50,000 training pictures. The std (0.2023, 0.1994, 0.2010) that many
# repositories carry is the mean of the per-picture stds, which is smaller.
CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
LOCK = ".cifar10.lock"  # below the root: who has it downloads


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
        if part not in ("train", "test"):
            raise DataError(f"Unknown part '{part}' of a data set: choose 'train' or 'test'.")
        if self.is_cifar10:
            return _load_cifar10(self.root, part)
        return _load_files(self.files(part), size)

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
        """(file, class index) of each picture of a folder's `part`, none of them read.

        Raises `DataError` where there is none, or one of a class that is not in train/.
        """
        return _list_folder(self.root / part, self.classes)


def default_root() -> Path:
    """`VITDEMO_DATA`, or `data` below the current folder."""
    return Path(os.environ.get("VITDEMO_DATA") or "data")


def open_source(
    root: Path | str | None = None,
    *,
    download: bool = True,
    on_bytes: OnBytes | None = None,
) -> Source:
    """Find the data set in `root`; an absent or empty `root` gets CIFAR-10, downloaded.

    `on_bytes(done, total)` hears of each file's download and may raise `Stopped` to end it: the
    next one goes on there. Raises `DataError` where `root` holds something else, or where the
    download is not possible.
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
            raise DataError(
                f"The data set is not in '{root}': get it in the page's tab Data or with `python "
                "train.py download`, where there is a network, or pass --data a folder of "
                "train/<class>/ and test/<class>/ pictures."
            )
        _download_cifar10(root, on_bytes)
    return Source("cifar10", root, CIFAR10_CLASSES, is_cifar10=True)


def is_absent(root: Path | str | None = None) -> bool:
    """Whether `root` holds nothing yet, so that CIFAR-10 can be downloaded into it."""
    root = Path(root) if root is not None else default_root()
    return not root.exists() or (root.is_dir() and not _holds_something_else(root))


def _holds_something_else(root: Path) -> bool:
    """Whether more lies there than the parts of a download that broke off, to be gone on with."""
    parts = (CIFAR10.filename, cifar10.PARTS, LOCK)
    return any(entry.name not in parts for entry in root.iterdir())


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
    classes = tuple(sorted(_folders(folder)))
    if len(classes) < 2:
        raise DataError(
            f"'{folder}' holds {len(classes)} class folders, and a classifier needs at least two: "
            "put the pictures into one folder for each class."
        )
    return classes


def _folders(parent: Path) -> set[str]:
    """Names of the folders right below; hidden ones (`.ipynb_checkpoints`) are nobody's class."""
    return {e.name for e in parent.iterdir() if e.is_dir() and not e.name.startswith(".")}


def _list_folder(folder: Path, classes: tuple[str, ...]) -> list[tuple[str, int]]:
    strangers = sorted(_folders(folder) - set(classes))
    if strangers:
        raise DataError(f"'{folder}' holds a class that train/ does not: '{strangers[0]}'.")
    present = {name: i for i, name in enumerate(classes) if (folder / name).is_dir()}
    files = make_dataset(str(folder), present, IMG_EXTENSIONS, allow_empty=True) if present else []
    if not files:
        raise DataError(f"'{folder}' holds no pictures: put them into {folder}/<class>/.")
    return files


def _load_files(files: list[tuple[str, int]], size: int) -> Pictures:
    with ThreadPoolExecutor() as pool:  # decoding releases the interpreter lock
        images = list(pool.map(lambda file: _read_square(file[0], size), files))
    return Pictures(torch.from_numpy(np.stack(images)), torch.tensor([label for _, label in files]))


def _read_square(path: str, size: int) -> np.ndarray:
    try:
        return to_uint8(square_crop(load_image(path), size))  # (3, S, S)
    except ImageError as error:
        raise DataError(f"'{path}' cannot be used: {error}") from error


def stratified_split(labels: Tensor, held_out: float | int, seed: int) -> tuple[Tensor, Tensor]:
    """Split N pictures into (kept, held out) indices, each class in proportion, both sorted.

    Args:
        labels: (N,) int64.
        held_out: share (float) or number (int) of pictures to hold out.
        seed: the same seed gives the same split on every machine.

    Raises `DataError` where a class has too few pictures to be in both parts.
    """
    from sklearn.model_selection import train_test_split  # 1.5 s that the page need not wait for

    try:
        kept, held = train_test_split(
            np.arange(len(labels)), test_size=held_out, stratify=labels.numpy(), random_state=seed
        )
    except ValueError as error:
        raise DataError(
            f"{len(labels)} pictures cannot be split so that every class is in both parts "
            f"({error}): add pictures to the smallest class."
        ) from error
    return torch.from_numpy(np.sort(kept)), torch.from_numpy(np.sort(held))


def stratified(labels: np.ndarray, count: int, seed: int = 0) -> np.ndarray:
    """Indices of `count` of the `labels` (of all where there are fewer), sorted.

    Each class has its share of all, within one picture; unlike scikit-learn's split this takes
    classes of any size.
    """
    random = np.random.default_rng(seed)
    place = np.empty(len(labels))  # within its class, 0 to 1
    for label in np.unique(labels):
        members = random.permutation(np.flatnonzero(labels == label))
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    return np.sort(np.argsort(place, kind="stable")[:count])


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
