"""CIFAR-10 from the Hugging Face Hub, rebuilt into the official files byte by byte.

CIFAR-10's own site has been slow since 2026-06 (https://github.com/pytorch/vision/issues/9536). The
Hub's copy takes seconds, but its images have no guaranteed order. Each image is therefore placed by
its content. In the official order, `places.bin` contains four bytes of the BLAKE2b digest of every
image, and `names.xz` contains the file names. The rebuilt files are accepted only if their MD5
checksums are the official checksums.

    fetch_from_hub(Path("data"))  # data/cifar-10-batches-py, for torchvision

Letters: N images.
"""

import hashlib
import io
import lzma
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image
from torchvision.datasets import CIFAR10
from torchvision.datasets.utils import check_integrity

from vitdemo.data.cifar10.python2_pickle import encode_batch, encode_meta
from vitdemo.data.downloads import OnBytes, download_file, download_from_hub
from vitdemo.errors import DataError

CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
HUB_REPOSITORY = "uoft-cs/cifar10"
PARQUET_FILES = (
    "plain_text/train-00000-of-00001.parquet",
    "plain_text/test-00000-of-00001.parquet",
)
BATCH_FILES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
IMAGES_PER_BATCH = 10_000  # images per batch
IMAGE_SHAPE = (32, 32, 3)
PARTIAL_FOLDER = ".cifar10-parts"  # folder of an incomplete download, below the root
DIGEST_BYTES = 4  # bytes of each digest, enough to distinguish all 60,000 images
PACKAGE_FOLDER = Path(__file__).parent


def fetch_from_hub(root: Path, on_bytes: OnBytes | None = None) -> None:
    """Download CIFAR-10 from the Hub and rebuild the official files below `root`.

    An incomplete download is continued. The dataset folder appears only when it is complete. Raises
    `DataError` if the Hub's copy differs from the official dataset. Without a network, raises the
    exceptions of huggingface_hub and httpx.
    """
    parts = root / PARTIAL_FOLDER
    files = [download_parquet(name, parts, on_bytes) for name in PARQUET_FILES]
    whole = parts / CIFAR10.base_folder
    shutil.rmtree(whole, ignore_errors=True)
    whole.mkdir()
    rebuild_official_files((row for file in files for row in iter_parquet_images(file)), whole)
    os.replace(whole, root / CIFAR10.base_folder)
    shutil.rmtree(parts)


def fetch_from_official_site(root: Path, on_bytes: OnBytes | None = None) -> None:
    """Download CIFAR-10 from its official site, which is slow.

    Raises `OSError` if the received file is not the official archive.
    """
    parts = root / PARTIAL_FOLDER
    parts.mkdir(parents=True, exist_ok=True)
    archive = parts / CIFAR10.filename
    download_file(CIFAR10.url, archive, label="CIFAR-10 from its own site", on_bytes=on_bytes)
    if not check_integrity(str(archive), CIFAR10.tgz_md5):
        archive.unlink()  # The next attempt downloads the archive again.
        raise OSError("the received file is not the official archive")
    with tarfile.open(archive) as packed:
        if hasattr(tarfile, "data_filter"):  # rejects files outside the folder
            packed.extraction_filter = tarfile.data_filter
        packed.extractall(parts)
    os.replace(parts / CIFAR10.base_folder, root / CIFAR10.base_folder)
    shutil.rmtree(parts)


def download_parquet(name: str, folder: Path, on_bytes: OnBytes | None = None) -> Path:
    """Download one file of the Hub's dataset into `folder`, or continue its download."""
    words = f"CIFAR-10 from the Hub, {Path(name).name.partition('-')[0]}"
    options = {"repo_type": "dataset", "label": words, "on_bytes": on_bytes}
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
        raise DataError(f"The Hub's '{file.name}' is damaged ({error}): try again.") from error


def rebuild_official_files(pictures: Iterator[tuple[np.ndarray, int]], folder: Path) -> None:
    """Write the official files into `folder` from (image, label) pairs in any order.

    Raises `DataError` if an image is missing or does not belong to CIFAR-10.
    """
    places, names = load_image_positions(), load_file_names()
    pixels = np.zeros((len(names), *IMAGE_SHAPE), np.uint8)
    labels, found = np.zeros(len(names), np.uint8), np.zeros(len(names), bool)
    stranger = None
    for number, (picture, label) in enumerate(pictures):
        free = [i for i in places.get(hash_image(picture), ()) if not found[i]]
        if not free:
            stranger = number if stranger is None else stranger
            continue
        pixels[free[0]], labels[free[0]], found[free[0]] = picture, label, True
    if stranger is not None or not found.all():
        raise DataError(_describe_difference(stranger, np.flatnonzero(~found), names))
    for b, batch in enumerate(BATCH_FILES):
        own = slice(b * IMAGES_PER_BATCH, (b + 1) * IMAGES_PER_BATCH)
        planes = np.ascontiguousarray(pixels[own].transpose(0, 3, 1, 2))  # (N, 3, 32, 32)
        content = encode_batch(batch, planes.tobytes(), labels[own].tolist(), names[own])
        _write_checked(folder / batch, content)
    _write_checked(folder / CIFAR10.meta["filename"], encode_meta(CLASSES))


def _describe_difference(unknown_image: int | None, missing: np.ndarray, names: list[str]) -> str:
    words = []
    if unknown_image is not None:
        words.append(f"image number {unknown_image} does not belong to CIFAR-10")
    if len(missing):
        first = missing[0]
        words.append(
            f"'{names[first]}' of {BATCH_FILES[first // IMAGES_PER_BATCH]} is missing"
            + (f", and {len(missing) - 1:,} more" if len(missing) > 1 else "")
        )
    return f"The Hub's copy of CIFAR-10 differs from the official one: {'; '.join(words)}."


def _write_checked(file: Path, content: bytes) -> None:
    official = dict([*CIFAR10.train_list, *CIFAR10.test_list])
    official[CIFAR10.meta["filename"]] = CIFAR10.meta["md5"]
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != official[file.name]:
        raise DataError(f"The Hub's copy of CIFAR-10 differs from the official one: {file.name}.")
    file.write_bytes(content)


def hash_image(picture: np.ndarray) -> bytes:
    """Return the BLAKE2b digest of one image (32, 32, 3) uint8."""
    return hashlib.blake2b(np.ascontiguousarray(picture).data, digest_size=DIGEST_BYTES).digest()


def load_image_positions() -> dict[bytes, list[int]]:
    """Return the official positions, 0 to 59,999, of the images with each digest."""
    raw, places = (PACKAGE_FOLDER / "places.bin").read_bytes(), {}
    for place in range(len(raw) // DIGEST_BYTES):
        key = raw[DIGEST_BYTES * place : DIGEST_BYTES * (place + 1)]
        places.setdefault(key, []).append(place)
    return places


def load_file_names() -> list[str]:
    """Return the file names of all 60,000 images in the official order."""
    return lzma.decompress((PACKAGE_FOLDER / "names.xz").read_bytes()).decode().split("\n")
