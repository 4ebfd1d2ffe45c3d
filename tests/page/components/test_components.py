"""Payloads of values and files for the browser, and validation of what it sends."""

import base64
import io
import json
import os
import re
import time
from inspect import signature
from pathlib import Path
from types import SimpleNamespace

import gradio as gr
import numpy as np
import pytest
from PIL import Image

from tests.support.factories import noise
from vitdemo.data.image_files import load_image
from vitdemo.documents import Notice
from vitdemo.documents.images import ImageItem, ImageRow
from vitdemo.documents.maps import MapPanel, MapRow
from vitdemo.documents.table import Cell, Table
from vitdemo.figures import DIVERGING_COLOURMAP, SEQUENTIAL_COLOURMAP
from vitdemo.page import components, image_sources
from vitdemo.page.bridge import Channel, document_payload
from vitdemo.page.components import (
    COMPONENTS_FOLDER,
    ImageFile,
    NamedFile,
    View,
    serve_file,
)
from vitdemo.page.modules import encode_colour_map


def serve_numbers(name: str, content: bytes) -> dict:
    return serve_file(gr.HTML(), NamedFile("numbers", name, lambda: content, len(content)))


def test_failed_write_is_reported_and_leaves_no_file(cache, monkeypatch):
    def fail(fd, *_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(gr.Error, match="No space left on device"):
        serve_numbers("a.bin", b"123")
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_oldest_files_are_deleted_but_recent_files_are_kept(cache, monkeypatch):
    monkeypatch.setattr(components, "MAX_CACHE_BYTES", 25)
    monkeypatch.setattr(components, "CACHE_CHECK_INTERVAL", 1)

    def make(name: str, age: float) -> Path:
        path = Path(serve_numbers(name, b"0123456789")["path"])
        os.utime(path, (time.time() - age,) * 2)
        return path

    old = [make(name, age) for name, age in {"a": 3000, "b": 2000, "c": 1000}.items()]
    young = [make(name, 0) for name in "def"]
    assert not any(path.exists() for path in old)
    assert all(path.exists() for path in young)  # over the size limit, but recent
    assert make("a", 0).read_bytes() == b"0123456789"  # recreated on request


def test_a_full_cache_with_a_subfolder_does_not_fail(cache, monkeypatch):
    monkeypatch.setattr(components, "MAX_CACHE_BYTES", 5)
    monkeypatch.setattr(components, "CACHE_CHECK_INTERVAL", 1)
    monkeypatch.setattr(components, "MIN_FILE_AGE_SECONDS", -1)
    folder = cache / "numbers" / "subfolder"
    folder.mkdir(parents=True)
    os.utime(folder, (0, 0))
    path = Path(serve_numbers("a", b"0123456789")["path"])
    assert folder.is_dir() and not path.exists()

    def fail(path):
        raise PermissionError

    monkeypatch.setattr(os, "unlink", fail)
    assert Path(serve_numbers("a", b"0123456789")["path"]).is_file()


def test_value_is_sent_as_json_text_with_separate_files(cache):
    images = [np.asarray(noise(seed, (128, 128))) for seed in (0, 1)]
    blocks = [ImageRow([ImageItem("of one", "grey")], image) for image in images]
    document = document_payload([*blocks, Table(["Name"], [["dé"]])])
    value = Channel("", "channel").serialise(document)
    first, second, table = json.loads(value["text"])
    for block, image in zip((first, second), images, strict=True):
        file = value["files"][block["sheet"]["file#"]]
        assert file["meta"]["_type"] == "gradio.FileData"  # so that gradio gives it a URL
        np.testing.assert_array_equal(load_image(file["path"]), image)
    assert table["rows"] == [["dé"]]
    assert document_payload([Notice("No run.")]) == [{"kind": "Notice", "text": "No run."}]
    with pytest.raises(TypeError):
        Channel("", "channel").serialise([object()])


def test_small_files_are_part_of_the_text(cache):
    pixels = np.asarray(noise(0, (32, 32)))
    value = Channel("", "channel").serialise(ImageFile(pixels))
    kind, content = json.loads(value["text"])["url"].split(",")
    assert (kind, value["files"]) == ("data:image/png;base64", [])
    image = Image.open(io.BytesIO(base64.b64decode(content)))
    np.testing.assert_array_equal(image, pixels)


def test_styles_contain_no_placeholder():
    """In styles gradio evaluates `${...}` as JavaScript."""
    for part in COMPONENTS_FOLDER.glob("*.css"):
        assert not re.findall(r"\$\{|\{\{|`|\\", part.read_text(encoding="utf-8")), part


@pytest.mark.parametrize("component", View.__subclasses__(), ids=lambda each: each.__name__)
def test_scripts_quote_no_parameter_name_of_gradio_html(component):
    # gradio takes a quoted name for an event if its HTML component has no such attribute. It then
    # reads each constructor parameter and copies it, with the component, at every page load.
    attributes = vars(gr.HTML(""))
    parameters = [name for name in signature(gr.HTML.__init__).parameters if name not in attributes]
    assert "every" in parameters
    text = component().js_on_load
    assert not [name for name in parameters if re.search(f"[\"'`]{name}[\"'`]", text)]


def colour_table(name: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(encode_colour_map(name)), np.uint8).reshape(256, 3)


def test_diverging_colours_are_purple_to_orange_and_sequential_brighten():
    negative, zero, positive = colour_table(DIVERGING_COLOURMAP)[[0, 128, 255]]
    assert zero.min() > 235
    assert negative[2] > negative[0] and positive[0] > positive[2]
    levels = colour_table(SEQUENTIAL_COLOURMAP).astype(float)
    assert levels[0].max() < 5
    assert (np.diff(levels @ [0.299, 0.587, 0.114]) >= -0.7).all()  # brightness, up to rounding


def test_example_images_are_sent_as_one_sheet_per_group():
    images = [noise(seed, (64, 64)) for seed in range(3)]
    tests = [SimpleNamespace(image=image, label=str(i)) for i, image in enumerate(images)]
    value = image_sources.load_example_images(tests.__getitem__, lambda: 3, has_truth=False)
    assert value["photos"] and value["sentence"] == ""
    (number, title), *_ = zip(value["tests"]["sources"], value["tests"]["titles"], strict=True)
    first = int(number.removeprefix("test:"))
    assert title == f"Test image {first}: {first}"
    np.testing.assert_array_equal(value["tests"]["sheet"].pixels[:, :64], images[first])
    none = image_sources.load_example_images(tests.__getitem__, lambda: 0, has_truth=False)
    assert none["tests"] is None and none["sentence"].startswith("The dataset has no test images.")


def test_map_is_sent_as_numbers_and_a_deleted_folder_is_recreated(cache):
    values = np.array([[0.12345678, 1], [2, -3.5]])
    panel = MapPanel("t", values, np.asarray(noise(0, (128, 128))), "alt", signed=True)
    for _ in range(2):
        (row,) = document_payload([MapRow([panel], "intro")])
        assert row["panels"][0]["values"] == [[0.123457, 1.0], [2.0, -3.5]]
        path = Path(Channel("", "channel").serialise(row)["files"][0]["path"])
        path.unlink()
        path.parent.rmdir()


def test_payload_omits_unset_fields():
    cell = Cell("0", np.float32(0), (np.nan, 1.0), bar=0.0)
    (payload,) = document_payload([Table(["Name", "Number"], [["a", cell]])])
    assert payload == {
        "kind": "Table",
        "columns": ["Name", "Number"],
        "rows": [
            ["a", {"kind": "Cell", "text": "0", "value": 0, "interval": [None, 1.0], "bar": 0}]
        ],
        "feet": [],
        "folded": [],
    }
