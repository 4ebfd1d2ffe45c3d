"""Download of CIFAR-10 from a local server with the Hub's protocol and the real data."""

import hashlib
import io
import os
import tarfile
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet
from torchvision.datasets import CIFAR10

from tests.hub import RESOLVE_PATH, serve_hub
from vitdemo import data
from vitdemo.data import cifar10
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
def real(cifar10):
    """Arrays (images, labels) of the training and the test set."""
    parts = (CIFAR10(str(cifar10.root), train=train, download=False) for train in (True, False))
    return [(part.data, part.targets) for part in parts]


@pytest.fixture(scope="module")
def shuffled(real) -> dict[str, bytes]:
    """Files of the Hub in another order than the official one."""
    random = np.random.default_rng(0)
    contents = (encode_parquet(*part, order=random.permutation(len(part[0]))) for part in real)
    return dict(zip(cifar10.PARQUET_FILES, contents, strict=True))


def test_shuffled_download_resumed_after_a_stop_equals_the_official_files(
    monkeypatch, shuffled, tmp_path, real
):
    def stop_late(done, total):
        if done > 15 * 2**20:
            raise Stopped

    with serve_hub(monkeypatch, shuffled), pytest.raises(Stopped):
        data.open_dataset(tmp_path, download=True, on_bytes=stop_late)
    assert not (tmp_path / CIFAR10.base_folder).exists()
    assert data.is_dataset_missing(tmp_path)
    with serve_hub(monkeypatch, shuffled) as requests:
        source = data.open_dataset(tmp_path, download=True)
    starts = [int(line.split()[1]) for line in requests if line.startswith("GET")]
    assert starts[0] > 10 * 2**20 and starts[1] == 0  # the second file had not been started
    assert sorted(file.name for file in tmp_path.iterdir()) == [CIFAR10.base_folder]
    dataset = CIFAR10(str(tmp_path), train=True, download=False)  # verifies the MD5 checksums
    np.testing.assert_array_equal(dataset.data, real[0][0])
    assert dataset.targets == real[0][1] and source.is_cifar10


def iterate_images(parts):
    for images, labels in parts:
        yield from zip(images, labels, strict=True)


def test_changed_image_and_wrong_label_are_rejected_by_name(tmp_path, real):
    training, (images, labels) = real
    changed = images.copy()
    changed[1234, 5, 5, 0] ^= 1
    name = cifar10.load_file_names()[50_000 + 1234]
    message = f"number 51234 does not belong to CIFAR-10; '{name}' of test_batch is missing"
    with pytest.raises(DataError, match=message):
        cifar10.rebuild_official_files(iterate_images([training, (changed, labels)]), tmp_path)
    assert not any(tmp_path.iterdir())
    (images, labels), test = real
    labels = [(labels[0] + 1) % 10, *labels[1:]]
    with pytest.raises(DataError, match=r"differs from the official one: data_batch_1\."):
        cifar10.rebuild_official_files(iterate_images([(images, labels), test]), tmp_path)


def test_download_resumes_after_a_broken_connection(monkeypatch, shuffled, tmp_path):
    name, content = cifar10.PARQUET_FILES[1], shuffled[cifar10.PARQUET_FILES[1]]
    with (
        serve_hub(monkeypatch, shuffled, limit=5 * 2**20),
        pytest.raises(Exception, match="peer closed"),
    ):
        cifar10.download_parquet(name, tmp_path)
    with serve_hub(monkeypatch, shuffled) as requests:
        file = cifar10.download_parquet(name, tmp_path)
    assert requests[-1] == f"GET {5 * 2**20}"
    assert file.read_bytes() == content


def test_damaged_parquet_file_is_reported_and_deleted(tmp_path):
    file = tmp_path / "train.parquet"
    file.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(DataError, match=r"'train\.parquet' is damaged"):
        list(cifar10.iter_parquet_images(file))
    assert not file.exists()


@contextmanager
def serve_official_archive(monkeypatch, batch: bytes):
    """Serve an archive of one file as CIFAR-10's site does, and yield the list of requests."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo(f"{CIFAR10.base_folder}/data_batch_1")
        member.size = len(batch)
        archive.addfile(member, io.BytesIO(batch))
    with serve_hub(monkeypatch, {"archive": buffer.getvalue()}) as requests:
        monkeypatch.setattr(CIFAR10, "url", f"{os.environ['HF_ENDPOINT']}/{RESOLVE_PATH}archive")
        monkeypatch.setattr(CIFAR10, "tgz_md5", hashlib.md5(buffer.getvalue()).hexdigest())
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
    assert [file.name for file in target.iterdir()] == [CIFAR10.base_folder]
    assert (target / CIFAR10.base_folder / "data_batch_1").read_bytes() == batch


def test_archive_with_wrong_checksum_is_rejected_and_deleted(monkeypatch, tmp_path):
    with serve_official_archive(monkeypatch, b"something else"):
        monkeypatch.setattr(CIFAR10, "tgz_md5", "0" * 32)
        with pytest.raises(DataError, match=r"Hub \(.*404.*site \(the received file is not"):
            data.open_dataset(tmp_path / "data", download=True)
    assert not (tmp_path / "data").exists()


def test_tables_contain_each_official_place_once():
    assert len(cifar10.load_image_positions()) == len(cifar10.load_file_names()) == 60_000
    assert (cifar10.PACKAGE_FOLDER / "places.bin").stat().st_size < 300_000
    assert cifar10.load_file_names()[0] == "leptodactylus_pentadactylus_s_000004.png"
