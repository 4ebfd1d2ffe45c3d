"""Requests for an image, which are untrusted, and the payload of the image input."""

import io
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from vitdemo.cache import Cache
from vitdemo.data.image_files import image_suffixes
from vitdemo.errors import ImageError
from vitdemo.page import image_sources
from vitdemo.page.bridge import CachedFile
from vitdemo.page.explore import image_input
from vitdemo.page.image_sources import ImageRequest, parse_image_fields
from vitdemo.page.view_state import ViewState


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"source": "photo:cat", "at": 0.2}, ImageRequest("photo:cat", None, 0.2)),
        ({"source": "test:17", "path": "/etc/passwd"}, ImageRequest("test:17")),
        ({"source": "test:17", "at": 7}, ImageRequest("test:17", None, 1.0)),
        ({"source": "test:17", "at": float("nan")}, ImageRequest("test:17")),
        ({"source": "test:17", "at": "x"}, ImageRequest("test:17")),
        ({"source": "test:17", "at": True}, ImageRequest("test:17")),
    ],
)
def test_image_request_of_the_browser_is_validated(data, expected):
    assert parse_image_fields(data) == expected


@pytest.mark.parametrize(
    "data",
    [{}, {"source": 3}, {"source": "x" * 999}, {"source": "own"}, {"source": "own", "path": 3},
     {"source": "own", "path": "/etc/passwd"}, {"source": "own", "path": "../../etc/passwd"}],
)  # fmt: skip
def test_image_request_rejects_files_that_were_not_uploaded(cache, data):
    with pytest.raises(ImageError):
        parse_image_fields(data)


def test_image_request_accepts_the_path_of_an_uploaded_file(cache):
    (cache / "mine.png").write_bytes(b"x")
    path = str(cache / "mine.png")
    assert parse_image_fields({"source": "own", "path": path, "at": 0.1}) == ImageRequest(
        "own", path, 0.1
    )


def preview(monkeypatch, image: Image.Image, request: ImageRequest, **options) -> dict:
    """Return the payload for `image`, as if a request had loaded it."""
    monkeypatch.setattr(image_sources, "load_image", lambda path: image)
    context = SimpleNamespace(
        load_test_image=lambda *_: SimpleNamespace(image=image, label="cat"),
        list_runs=lambda: ([SimpleNamespace(name="resnet18")], []),
        cache=Cache(2**20),
    )
    return image_input.payload(context, ViewState(request, "vit", options))


def read_pixels(file: CachedFile) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(file.make_content())))


def test_small_image_is_sent_unchanged_and_large_image_downscaled(monkeypatch):
    pixels = np.random.default_rng(0).integers(0, 256, (32, 48, 3), dtype=np.uint8)
    value = preview(monkeypatch, Image.fromarray(pixels), ImageRequest("test:3"))
    np.testing.assert_array_equal(read_pixels(value["image"]), pixels)
    assert (value["size"], value["label"], value["description"]) == (
        [48, 32],
        "cat",
        "Test image 3.",
    )
    for size, expected in {(3000, 1000): (640, 213), (10_000, 1): (640, 1)}.items():
        large = preview(monkeypatch, Image.new("RGB", size), ImageRequest("own"))
        assert read_pixels(large["image"]).shape[1::-1] == expected
        assert large["size"] == list(size)


def test_payload_names_the_model_without_results(monkeypatch):
    image = Image.new("RGB", (9, 9))
    for name, missing in {
        "": None,
        "resnet18": {"name": "resnet18", "exists": True},
        "nobody": {"name": "nobody", "exists": False},
    }.items():
        value = preview(monkeypatch, image, ImageRequest("test:3"), unavailable=name)
        assert value["missing"] == missing


def test_file_input_accepts_every_image_suffix():
    script = (Path(image_input.__file__).parent / "layout.js").read_text("utf-8")
    (suffixes,) = re.findall(r'ACCEPTED =\s*"([^"]*)"', script)
    assert image_suffixes() | {"image/*"} <= set(suffixes.split(","))


@pytest.mark.parametrize(
    "text",
    [
        *("test:", "test:-1", "17", "", "test:²", "photo:lion", "test:99999999999"),
        *("set:17", "set::17", "set:a/b:17", "set:0f3a:-1"),
    ],
)
def test_test_images_are_identified_by_number_and_test_set(text):
    parse, format_source = image_sources.parse_test_source, image_sources.format_test_source
    for place in ((17, ""), (17, "0f3a")):
        assert parse(format_source(*place)) == place
    assert parse(text) is None
