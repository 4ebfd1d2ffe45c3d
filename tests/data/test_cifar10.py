"""CIFAR-10: downloads from a local server with the Hub's protocol, checksums, both formats."""

import hashlib
import io
import os
import tarfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from tests.support.hub import RESOLVE_PATH, serve_hub
from vitdemo import data
from vitdemo.data import cifar10 as module
from vitdemo.errors import DataError, Stopped


def encode_parquet(images: np.ndarray, labels: list[int], order: np.ndarray) -> bytes:
    """Encode uint8 images (N, 32, 32, 3) in the Hub's columns, in this order."""
    cells = []
    for i in order:
        buffer = io.BytesIO()
        Image.fromarray(images[i]).save(buffer, "png", compress_level=0)
        cells.append({"bytes": buffer.getvalue(), "path": None})
    table = pa.table({"img": cells, "label": [labels[i] for i in order]})
    buffer = io.BytesIO()
    parquet.write_table(table, buffer, row_group_size=1000)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def real(cifar10) -> list[tuple[np.ndarray, np.ndarray]]:
    """Arrays (images (N, 32, 32, 3), labels (N,)) of the training and the test set."""
    parts = (module.load_part(cifar10.root, part) for part in module.PARTS)
    return [(images.transpose(0, 2, 3, 1).copy(), labels) for images, labels in parts]


@pytest.fixture(scope="module")
def shuffled(real) -> dict[str, bytes]:
    """Files of the Hub in another order than the official one."""
    random = np.random.default_rng(0)
    contents = (encode_parquet(*part, order=random.permutation(len(part[0]))) for part in real)
    return dict(zip(module.PARQUET_FILES, contents, strict=True))


def test_shuffled_download_resumed_after_a_stop_equals_the_official_files(
    monkeypatch, shuffled, tmp_path, real
):
    def stop_late(done, total):
        if done > 15 * 2**20:
            raise Stopped

    with serve_hub(monkeypatch, shuffled), pytest.raises(Stopped):
        data.open_dataset(tmp_path, download=True, on_bytes=stop_late)
    assert module.find_folder(tmp_path) is None
    assert data.is_dataset_missing(tmp_path)
    with serve_hub(monkeypatch, shuffled) as requests:
        source = data.open_dataset(tmp_path, download=True)
    starts = [int(line.split()[1]) for line in requests if line.startswith("GET")]
    assert starts[0] > 10 * 2**20 and starts[1] == 0  # the second file had not been started
    assert [file.name for file in tmp_path.iterdir()] == [module.ARRAYS_FOLDER]
    assert source.is_cifar10
    for part, (images, labels) in zip(module.PARTS, real, strict=True):
        found = source.load(part)
        np.testing.assert_array_equal(found.images, images.transpose(0, 3, 1, 2))
        np.testing.assert_array_equal(found.labels, labels)


def test_checksums_are_those_of_the_files_that_torchvision_accepts(cifar10, real):
    """The folder of the official files, which earlier versions wrote, is read as well."""
    official = pytest.importorskip("torchvision.datasets").CIFAR10
    assert {**dict(official.train_list), **dict(official.test_list)} == (
        module.OFFICIAL_FILES["train"] | module.OFFICIAL_FILES["test"]
    )
    assert (official.base_folder, official.tgz_md5, official.filename) == (
        module.OFFICIAL_FOLDER,
        module.ARCHIVE_MD5,
        module.ARCHIVE_FILE,
    )
    if not (cifar10.root / module.OFFICIAL_FOLDER).is_dir():
        pytest.skip("CIFAR-10 is not on this machine as the official files")
    for train, (images, labels) in zip((True, False), real, strict=True):
        theirs = official(str(cifar10.root), train=train)  # verifies the MD5 checksums
        np.testing.assert_array_equal(theirs.data, images)
        assert theirs.targets == labels.tolist()


def iterate_images(parts):
    for images, labels in parts:
        yield from zip(images, labels, strict=True)


def test_changed_image_and_wrong_label_are_rejected_by_name(tmp_path, real):
    training, (images, labels) = real
    changed = images.copy()
    changed[1234, 5, 5, 0] ^= 1
    message = "number 51234 does not belong to CIFAR-10; image 1234 of test is missing"
    with pytest.raises(DataError, match=message):
        module.write_arrays(iterate_images([training, (changed, labels)]), tmp_path)
    assert not any(tmp_path.iterdir())
    (images, labels), test = real
    labels = [(labels[0] + 1) % 10, *labels[1:]]
    with pytest.raises(DataError, match=r"differs from the official one: labels of train\."):
        module.write_arrays(iterate_images([(images, labels), test]), tmp_path)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", [module.ARRAYS_FOLDER, module.OFFICIAL_FOLDER])
def test_missing_and_changed_files_are_rejected(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    images = np.zeros((10_000, *module.IMAGE_SHAPE), np.uint8)
    np.savez(folder / "test.npz", images=images, labels=np.zeros(10_000, np.uint8))
    batch = folder / "test_batch"
    batch.write_bytes(b"cos\nsystem\n(S'touch executed'\ntR.")  # not unpickled
    for part in ("train", "test"):
        with pytest.raises(DataError, match=f"incomplete or damaged.*delete '.*{name}'"):
            data.open_dataset(tmp_path).load(part)
    assert not Path("executed").exists()


def test_damaged_parquet_file_is_reported_and_deleted(tmp_path):
    file = tmp_path / "train.parquet"
    file.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(DataError, match=r"'train\.parquet' is damaged"):
        list(module.iter_parquet_images(file))
    assert not file.exists()


@contextmanager
def serve_official_archive(monkeypatch, batch: bytes):
    """Serve an archive of one file as CIFAR-10's site does, and yield the list of requests."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo(f"{module.OFFICIAL_FOLDER}/data_batch_1")
        member.size = len(batch)
        archive.addfile(member, io.BytesIO(batch))
    with serve_hub(monkeypatch, {"archive": buffer.getvalue()}) as requests:
        monkeypatch.setattr(
            module, "ARCHIVE_URL", f"{os.environ['HF_ENDPOINT']}/{RESOLVE_PATH}archive"
        )
        monkeypatch.setattr(module, "ARCHIVE_MD5", hashlib.md5(buffer.getvalue()).hexdigest())
        yield requests


def test_official_site_is_a_resumable_fallback_for_the_hub(monkeypatch, tmp_path):
    batch = np.random.default_rng(0).bytes(3 * 2**20)

    def stop_late(done, total):
        if done > 2**20:
            raise Stopped

    target = tmp_path / "data"
    with serve_official_archive(monkeypatch, batch) as requests:
        with pytest.raises(Stopped):
            data.open_dataset(target, download=True, on_bytes=stop_late)
        assert data.is_dataset_missing(target)
        data.open_dataset(target, download=True)
    assert requests[-1] == f"GET {2 * 2**20}"
    assert [file.name for file in target.iterdir()] == [module.OFFICIAL_FOLDER]
    assert (target / module.OFFICIAL_FOLDER / "data_batch_1").read_bytes() == batch


def test_archive_with_wrong_checksum_is_rejected_and_deleted(monkeypatch, tmp_path):
    with serve_official_archive(monkeypatch, b"something else"):
        monkeypatch.setattr(module, "ARCHIVE_MD5", "0" * 32)
        with pytest.raises(DataError, match=r"Hub \(.*404.*site \(the received file is not"):
            data.open_dataset(tmp_path / "data", download=True)
    assert not (tmp_path / "data").exists()


def test_table_contains_each_official_place_once():
    places = [place for several in module.load_image_positions().values() for place in several]
    assert sorted(places) == list(range(60_000))
    assert module.PLACES_FILE.stat().st_size == 60_000 * module.DIGEST_BYTES
