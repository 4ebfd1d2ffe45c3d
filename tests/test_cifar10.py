"""CIFAR-10 from the Hub: a server here that speaks its protocol, with parquet of the real data."""

import hashlib
import io
import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from PIL import Image
from torchvision.datasets import CIFAR10

from vitdemo import cifar10, data
from vitdemo.errors import DataError, Stopped

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

MARK = "resolve/main/"


class Hub(BaseHTTPRequestHandler):
    """Files by name, with ETag and ranges as the Hub gives them; `limit` ends an answer early."""

    files: dict[str, bytes]
    asked: list[str]
    limit: int | None = None
    pause = 0.0

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, body: bool) -> None:
        content = self.files.get(self.path.partition(MARK)[2])
        if content is None:
            self.send_error(404)
            return
        start = int((self.headers.get("Range") or "bytes=0-")[6:].partition("-")[0])
        self.asked.append(f"{self.command} {start}")
        self.send_response(206 if start else 200)
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", "0" * 40)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(content) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        if body:
            end = len(content) if self.limit is None else start + self.limit
            for at in range(start, min(end, len(content)), 2**20):
                self.wfile.write(content[at : min(at + 2**20, end)])
                time.sleep(self.pause)

    def log_message(self, *words):
        pass


@contextmanager
def hub(monkeypatch, files: dict[str, bytes], **options):
    """A Hub with these files; gives the list of what it is asked for."""
    asked = []
    handler = type("Handler", (Hub,), {"files": files, "asked": asked, **options})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    try:
        yield asked
    finally:
        server.shutdown()
        server.server_close()


def parquet_bytes(pictures: np.ndarray, labels, order=None) -> bytes:
    """The Hub's columns of (N, 32, 32, 3) uint8 pictures, in this order."""
    cells = []
    for i in range(len(pictures)) if order is None else order:
        buffer = io.BytesIO()
        Image.fromarray(pictures[i]).save(buffer, "png", compress_level=1)
        cells.append(({"bytes": buffer.getvalue(), "path": None}, int(labels[i])))
    images, labels = zip(*cells, strict=True)
    table = pa.table({"img": list(images), "label": list(labels)})
    buffer = io.BytesIO()
    parquet.write_table(table, buffer, row_group_size=1000)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def real(cifar10):
    """(pictures, labels) of training and test set, as arrays."""
    parts = (CIFAR10(str(cifar10.root), train=train, download=False) for train in (True, False))
    return [(part.data, part.targets) for part in parts]


@pytest.fixture(scope="module")
def shuffled(real) -> dict[str, bytes]:
    """The Hub's files in another order than the official one."""
    random = np.random.default_rng(0)
    contents = (parquet_bytes(*part, order=random.permutation(len(part[0]))) for part in real)
    return dict(zip(cifar10.FILES, contents, strict=True))


def test_the_official_files_come_out_in_any_order_after_a_stop(
    monkeypatch, shuffled, tmp_path, real
):
    def stop_late(done, total):
        if done > 15 * 2**20:
            raise Stopped

    with hub(monkeypatch, shuffled), pytest.raises(Stopped):
        data.open_source(tmp_path, on_bytes=stop_late)
    assert not (tmp_path / CIFAR10.base_folder).exists()
    assert data.is_absent(tmp_path)
    with hub(monkeypatch, shuffled) as asked:
        source = data.open_source(tmp_path)
    starts = [int(line.split()[1]) for line in asked if line.startswith("GET")]
    assert starts[0] > 10 * 2**20 and starts[1] == 0  # the second file was not begun
    assert sorted(file.name for file in tmp_path.iterdir()) == [CIFAR10.base_folder]
    found = CIFAR10(str(tmp_path), train=True, download=False)  # which checks the MD5 sums
    np.testing.assert_array_equal(found.data, real[0][0])
    assert found.targets == real[0][1] and source.is_cifar10


def pictures_of(parts):
    for pictures, labels in parts:
        yield from zip(pictures, labels, strict=True)


def test_a_changed_picture_is_refused_by_name(tmp_path, real):
    training, (pictures, labels) = real
    changed = pictures.copy()
    changed[1234, 5, 5, 0] ^= 1
    name = cifar10.file_names()[50_000 + 1234]
    words = f"number 51234 is not of CIFAR-10; '{name}' of test_batch is missing"
    with pytest.raises(DataError, match=words):
        cifar10.rebuild(pictures_of([training, (changed, labels)]), tmp_path)
    assert not any(tmp_path.iterdir())


def test_a_wrong_label_is_refused(tmp_path, real):
    (pictures, labels), test = real
    labels = [(labels[0] + 1) % 10, *labels[1:]]
    with pytest.raises(DataError, match=r"differs from the official one: data_batch_1\."):
        cifar10.rebuild(pictures_of([(pictures, labels), test]), tmp_path)


def test_a_broken_connection_goes_on_where_it_broke(monkeypatch, shuffled, tmp_path):
    name, content = cifar10.FILES[1], shuffled[cifar10.FILES[1]]
    with hub(monkeypatch, shuffled, limit=5 * 2**20), pytest.raises(Exception, match="peer closed"):
        cifar10.download(name, tmp_path)
    with hub(monkeypatch, shuffled) as asked:
        file = cifar10.download(name, tmp_path)
    assert asked[-1] == f"GET {5 * 2**20}"
    assert file.read_bytes() == content


def test_a_damaged_file_is_said_and_fetched_anew(tmp_path):
    file = tmp_path / "train.parquet"
    file.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(DataError, match=r"'train\.parquet' is damaged"):
        list(cifar10.rows(file))
    assert not file.exists()


def test_without_the_hub_its_own_site_is_asked(monkeypatch, tmp_path):
    asked = []

    def refuse(self):
        asked.append(self.root)
        raise OSError("no route to host")

    monkeypatch.setattr(CIFAR10, "download", refuse)
    target = tmp_path / "data"
    with hub(monkeypatch, {}), pytest.raises(DataError, match=r"Hub \(.*404.*site \(no route"):
        data.open_source(target)
    assert len(asked) == 1 and not target.exists()


def test_the_tables_hold_each_official_place_once():
    assert len(cifar10.known_places()) == len(cifar10.file_names()) == 60_000
    assert (cifar10.HERE / "places.bin").stat().st_size < 300_000
    assert json.dumps(cifar10.file_names()[:1]) == '["leptodactylus_pentadactylus_s_000004.png"]'
