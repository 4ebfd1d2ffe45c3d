"""CIFAR-10 from the Hugging Face Hub, in the official order, or from its own site.

CIFAR-10's own site has been slow since 2026-06 (https://github.com/pytorch/vision/issues/9536). The
Hub's copy takes seconds, but its images have no guaranteed order. Each image is therefore placed by
its content: `places.bin` contains, in the official order, four bytes of every image's BLAKE2b
digest. The result is two files of arrays. These files are accepted only if the SHA-256 checksums of
images and labels equal the official checksums. A folder with the official files, for example from
torchvision, can also be read.

    fetch_from_hub(Path("data"))
    images, labels = load_part(Path("data"), "test")  # (10000, 3, 32, 32) uint8, (10000,) uint8

Letters: N images.
"""

import hashlib
import io
import os
import pickle
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from vitdemo.data.downloads import OnBytes, download_file, download_from_hub
from vitdemo.errors import DataError

CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
HUB_REPOSITORY = "uoft-cs/cifar10"
PARQUET_FILES = tuple(f"plain_text/{part}-00000-of-00001.parquet" for part in ("train", "test"))
ARCHIVE_FILE = "cifar-10-python.tar.gz"
ARCHIVE_URL = f"https://www.cs.toronto.edu/~kriz/{ARCHIVE_FILE}"
ARCHIVE_MD5 = "c58f30108f718f92721af3b95e74349a"
OFFICIAL_FOLDER = "cifar-10-batches-py"  # folder of the archive, with one pickle per batch
OFFICIAL_FILES = {  # part -> name and MD5 checksum of its batches
    "train": {
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    },
    "test": {"test_batch": "40351d587109b95175f43aff81a1287e"},
}
ARRAYS_FOLDER = "cifar-10-arrays"  # folder that contains train.npz and test.npz
PARTS = {"train": range(50_000), "test": range(50_000, 60_000)}  # places in the official order
SHA256 = {  # part -> checksum of the images followed by the labels, both uint8
    "train": "1e91790dbaf241617ca1f29a9aba08eb9a62df84cc90676b47edd05ad2ab3c94",
    "test": "9a4c74f5c8b6f2c4e13d3a1dfb43a5a8cda8a9da515e99fd620d2013a1a6287a",
}
IMAGE_SHAPE = (3, 32, 32)
PARTIAL_FOLDER = ".cifar10-parts"  # folder of an incomplete download, below the root
DIGEST_BYTES = 4  # bytes of each digest, enough to distinguish all 60,000 images
PLACES_FILE = Path(__file__).parent / "places.bin"


def find_folder(root: Path) -> Path | None:
    folders = (root / ARRAYS_FOLDER, root / OFFICIAL_FOLDER)
    return next((folder for folder in folders if folder.is_dir()), None)


def load_part(root: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Return images (N, 3, 32, 32) and labels (N,), both uint8, of "train" or "test".

    Raises `DataError` unless the checksums of the files below `root` are the official ones.
    """
    folder = find_folder(root)
    try:
        if folder is None:
            raise DataError("there is no folder")
        read = _read_arrays if folder.name == ARRAYS_FOLDER else _read_official_files
        return read(folder, part)
    except (DataError, OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(
            f"CIFAR-10 in '{root}' is incomplete or damaged. To download it again, delete "
            f"'{folder}'."
        ) from error


def _read_arrays(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    with np.load(folder / f"{part}.npz", allow_pickle=False) as arrays:
        images, labels = arrays["images"], arrays["labels"]
    if hash_arrays(images, labels) != SHA256[part]:
        raise DataError(f"the checksum of {part} is wrong")
    return images, labels


def _read_official_files(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    batches = []
    for name, md5 in OFFICIAL_FILES[part].items():
        content = (folder / name).read_bytes()
        # Only a file with this checksum is unpickled, because a pickle can execute code.
        if hashlib.md5(content, usedforsecurity=False).hexdigest() != md5:
            raise DataError(f"the checksum of {name} is wrong")
        batches.append(pickle.loads(content, encoding="latin1"))
    images = np.concatenate([batch["data"] for batch in batches]).reshape(-1, *IMAGE_SHAPE)
    return images, np.concatenate([np.array(batch["labels"], np.uint8) for batch in batches])


def hash_arrays(images: np.ndarray, labels: np.ndarray) -> str:
    """Return the SHA-256 of images (N, 3, 32, 32) and labels (N,), both uint8."""
    digest = hashlib.sha256(np.ascontiguousarray(images))
    digest.update(np.ascontiguousarray(labels))
    return digest.hexdigest()


def fetch_from_hub(root: Path, on_bytes: OnBytes | None = None) -> None:
    """Download CIFAR-10 from the Hub and write it below `root` in the official order.

    An incomplete download is continued. The dataset folder appears only when it is complete. Raises
    `DataError` if the Hub's copy differs from the official dataset. Without a network, raises the
    exceptions of huggingface_hub and httpx.
    """
    parts = root / PARTIAL_FOLDER
    files = [download_parquet(name, parts, on_bytes) for name in PARQUET_FILES]
    whole = parts / ARRAYS_FOLDER
    shutil.rmtree(whole, ignore_errors=True)
    whole.mkdir()
    write_arrays((row for file in files for row in iter_parquet_images(file)), whole)
    os.replace(whole, root / ARRAYS_FOLDER)
    shutil.rmtree(parts)


def fetch_from_official_site(root: Path, on_bytes: OnBytes | None = None) -> None:
    """Download CIFAR-10 from its slow official site. Raises `OSError` for a wrong checksum."""
    parts = root / PARTIAL_FOLDER
    parts.mkdir(parents=True, exist_ok=True)
    archive = parts / ARCHIVE_FILE
    download_file(ARCHIVE_URL, archive, label="CIFAR-10 from its own site", on_bytes=on_bytes)
    if _hash_md5(archive) != ARCHIVE_MD5:
        archive.unlink()  # The next attempt downloads the archive again.
        raise OSError("the received file is not the official archive")
    with tarfile.open(archive) as packed:
        if hasattr(tarfile, "data_filter"):  # the filter rejects files outside the folder
            packed.extraction_filter = tarfile.data_filter
        packed.extractall(parts)
    os.replace(parts / OFFICIAL_FOLDER, root / OFFICIAL_FOLDER)
    shutil.rmtree(parts)


def _hash_md5(file: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with file.open("rb") as stream:
        while chunk := stream.read(2**20):
            digest.update(chunk)
    return digest.hexdigest()


def download_parquet(name: str, folder: Path, on_bytes: OnBytes | None = None) -> Path:
    """Download one file of the Hub's dataset into `folder`, or continue its download."""
    label = f"CIFAR-10 from the Hub, {Path(name).name.partition('-')[0]}"
    options = {"repo_type": "dataset", "label": label, "on_bytes": on_bytes}
    return download_from_hub(HUB_REPOSITORY, name, folder, **options)


def iter_parquet_images(file: Path) -> Iterator[tuple[np.ndarray, int]]:
    """Yield each image (32, 32, 3) uint8 of a parquet file with its label. Raises `DataError`."""
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        for batch in ParquetFile(file).iter_batches(columns=["img", "label"]):
            labels = batch.column("label").to_pylist()
            for cell, label in zip(batch.column("img"), labels, strict=True):
                with Image.open(io.BytesIO(cell["bytes"].as_py())) as image:
                    yield np.asarray(image.convert("RGB")), label
    except (pyarrow.ArrowException, OSError, KeyError, TypeError) as error:
        file.unlink(missing_ok=True)  # The next attempt downloads the file again.
        raise DataError(
            f"The Hub's file '{file.name}' is damaged ({error}): download it again."
        ) from error


def write_arrays(pictures: Iterator[tuple[np.ndarray, int]], folder: Path) -> None:
    """Write train.npz and test.npz into `folder` from (image, label) pairs in any order.

    Raises `DataError` if an image is missing or does not belong to CIFAR-10, or a label is wrong.
    """
    places = load_image_positions()
    count = PARTS["test"].stop
    images = np.zeros((count, *IMAGE_SHAPE), np.uint8)
    labels, found = np.zeros(count, np.uint8), np.zeros(count, bool)
    strangers = []
    for number, (picture, label) in enumerate(pictures):
        free = [i for i in places.get(hash_image(picture), ()) if not found[i]]
        if not free:
            strangers.append(number)
            continue
        images[free[0]], labels[free[0]], found[free[0]] = picture.transpose(2, 0, 1), label, True
    if strangers or not found.all():
        raise DataError(_describe_difference(strangers, np.flatnonzero(~found)))
    own = {part: slice(places.start, places.stop) for part, places in PARTS.items()}
    for part, rows in own.items():
        if hash_arrays(images[rows], labels[rows]) != SHA256[part]:
            raise DataError(
                f"The Hub's copy of CIFAR-10 differs from the official one: labels of {part}."
            )
    for part, rows in own.items():
        np.savez(folder / f"{part}.npz", images=images[rows], labels=labels[rows])


def _describe_difference(strangers: list[int], missing: np.ndarray) -> str:
    words = []
    if strangers:
        words.append(f"image number {strangers[0]} does not belong to CIFAR-10")
    if len(missing):
        part = next(part for part, places in PARTS.items() if missing[0] in places)
        words.append(
            f"image {missing[0] - PARTS[part].start} of {part} is missing"
            + (f", and {len(missing) - 1:,} more" if len(missing) > 1 else "")
        )
    return f"The Hub's copy of CIFAR-10 differs from the official one: {'; '.join(words)}."


def hash_image(picture: np.ndarray) -> bytes:
    """Return the BLAKE2b digest of one image (32, 32, 3) uint8."""
    return hashlib.blake2b(np.ascontiguousarray(picture).data, digest_size=DIGEST_BYTES).digest()


def load_image_positions() -> dict[bytes, list[int]]:
    """Return digest -> official positions (0 to 59,999) of the images with this digest."""
    raw, places = PLACES_FILE.read_bytes(), {}
    for place in range(len(raw) // DIGEST_BYTES):
        key = raw[DIGEST_BYTES * place : DIGEST_BYTES * (place + 1)]
        places.setdefault(key, []).append(place)
    return places
