"""Payloads of values and files for the browser, and validation of what it sends."""

import base64
import json
import os
import re
import time
from inspect import signature
from pathlib import Path

import gradio as gr
import numpy as np
import pytest
import torch
from gradio.data_classes import FileData
from PIL import Image

from tests.factories import TIMM_KINDS, make_context, make_run, timm_spec
from vitdemo.context import Prediction
from vitdemo.data.image_files import image_suffixes, load_image
from vitdemo.data.perturb.changes import ImageChanges, RemovedPatches
from vitdemo.errors import ImageError, RunError
from vitdemo.explain import norms
from vitdemo.figures import DIVERGING_COLOURMAP, SEQUENTIAL_COLOURMAP
from vitdemo.page import components
from vitdemo.page.components import (
    COMPONENTS_FOLDER,
    encode_colour_map,
    serialise_payload,
    serve_file,
)
from vitdemo.page.components.answers import ImagePredictions, PredictionCards, prediction_notes
from vitdemo.page.components.article import Document
from vitdemo.page.components.attention import AttentionData, AttentionView
from vitdemo.page.components.canvas import ChangedImage, ImageCanvas
from vitdemo.page.components.maps import MapPanel, MapRow
from vitdemo.page.components.matrix_file import unpack_matrices
from vitdemo.page.components.offers import ExampleImages, Examples, ThumbnailRow
from vitdemo.page.components.picture import (
    ImageInput,
    ImageRequest,
    LoadedImage,
    parse_image_request,
)
from vitdemo.page.components.pictures import ImageItem, ImageRow
from vitdemo.page.components.table import Cell, Table


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Folder of gradio's temporary files."""
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    return tmp_path


def test_failed_write_is_reported_and_leaves_no_file(cache, monkeypatch):
    def fail(fd, *_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(gr.Error, match="No space left on device"):
        serve_file(Document(), "numbers", "a.bin", lambda: b"123")
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_oldest_files_are_deleted_but_recent_files_are_kept(cache, monkeypatch):
    monkeypatch.setattr(components, "MAX_CACHE_BYTES", 25)
    monkeypatch.setattr(components, "CACHE_CHECK_INTERVAL", 1)

    def make(name: str, age: float) -> Path:
        path = Path(serve_file(Document(), "numbers", name, lambda: b"0123456789").path)
        os.utime(path, (time.time() - age,) * 2)
        return path

    old = [make(name, age) for name, age in {"a": 3000, "b": 2000, "c": 1000}.items()]
    young = [make(name, 0) for name in "def"]
    assert not any(path.exists() for path in old)
    assert all(path.exists() for path in young)  # over the size limit, but recent
    assert make("a", 0).read_bytes() == b"0123456789"  # recreated on request


def test_value_is_sent_as_json_text_with_separate_files(cache):
    images = [np.full((2, 2, 3), grey, np.uint8) for grey in (0, 255)]
    blocks = [ImageRow([ImageItem("of one", "grey")], image) for image in images]
    value = Document().postprocess([*blocks, Table(["Name"], [["dé"]])])
    black, white, table = json.loads(value["text"])
    for block, image in zip((black, white), images, strict=True):
        file = value["files"][block["sheet"]["file#"]]
        assert file["meta"]["_type"] == "gradio.FileData"  # so that gradio gives it a URL
        np.testing.assert_array_equal(load_image(file["path"]), image)
    assert table["rows"] == [["dé"]]
    assert Document().postprocess("No run.")["text"] == '[{"kind":"Notice","text":"No run."}]'
    with pytest.raises(TypeError):
        serialise_payload([object()])


def trace_image(root: Path, spec, colour="black"):
    image = Image.new("RGB", (40, 40), colour)
    return make_context(root).trace_image(make_run(root / "run", spec), image)


def read_matrix(file: FileData) -> np.ndarray:
    return unpack_matrices(Path(file.path).read_bytes())


def read_pixels(file: FileData) -> np.ndarray:
    return np.asarray(load_image(file.path))


@pytest.mark.parametrize(
    "part", sorted(COMPONENTS_FOLDER.glob("*.html")) + sorted(COMPONENTS_FOLDER.glob("*.css"))
)
def test_templates_contain_no_placeholder(part):
    """In templates gradio evaluates `${...}` as JavaScript, even if it comes from a name."""
    text = part.read_text(encoding="utf-8")
    assert "${" not in text and "{{" not in text and "`" not in text and "\\" not in text


@pytest.mark.parametrize(
    "script", sorted(COMPONENTS_FOLDER.glob("*.js")), ids=lambda path: path.stem
)
def test_scripts_quote_no_parameter_name_of_gradio_html(script):
    # gradio takes a quoted name for an event if its HTML component has no such attribute. It then
    # reads each constructor parameter and copies it, with the component, at every page load.
    attributes = vars(gr.HTML(""))
    parameters = [name for name in signature(gr.HTML.__init__).parameters if name not in attributes]
    assert "every" in parameters
    text = script.read_text("utf-8")
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


@pytest.mark.parametrize("kind", TIMM_KINDS)
def test_attention_payload_contains_matrix_files(cache, tmp_path, kind):
    trace = trace_image(tmp_path, TIMM_KINDS[kind], (200, 30, 90))
    rollout = torch.rand(2, *trace.attention.shape[-2:])
    value = AttentionView().to_payload(AttentionData(trace, rollout, 1, " (min)"))
    assert (value["run"], value["layers"], value["heads"], value["grid"]) == ("run", 2, 3, [4, 4])
    assert value["prefix"] == list(trace.prefix_names)
    assert value["rows"] is None and value["rollout"]["words"] == " (min)"
    (file,) = value["attention"]
    np.testing.assert_allclose(read_matrix(file), trace.attention, atol=1e-3)
    np.testing.assert_allclose(read_matrix(value["rollout"]["file"])[:, 0], rollout, atol=1e-3)
    np.testing.assert_allclose(
        read_matrix(value["similar"])[:, 0], trace.token_similarity, atol=1e-3
    )
    np.testing.assert_array_equal(read_pixels(value["seen"]), trace.input_image)


@pytest.mark.parametrize("kind", TIMM_KINDS)
def test_norm_weighted_attention_is_sent_on_request(cache, tmp_path, kind):
    trace = trace_image(tmp_path, TIMM_KINDS[kind], (200, 30, 90))
    context = make_context(tmp_path)
    products = context.value_products(trace)
    value = AttentionView().to_payload(
        AttentionData(trace, trace.token_similarity, products=products)
    )["norms"]
    assert value["rows"] is None
    heads = norms.head_norms(trace.attention, products)
    (file,) = value["heads"]
    np.testing.assert_allclose(read_matrix(file), heads / heads.sum(-1, keepdim=True), atol=1e-3)
    summed = norms.summed_head_norms(trace.attention, products)
    expected = summed / summed.sum(-1, keepdim=True)
    np.testing.assert_allclose(read_matrix(value["all"])[:, 0], expected, atol=1e-3)
    assert AttentionView().to_payload(AttentionData(trace, trace.token_similarity))["norms"] is None


def test_payload_explains_missing_norm_weighted_attention(cache, tmp_path):
    trace = trace_image(tmp_path, timm_spec(scale_attn_norm=True))
    with pytest.raises(RunError, match="normalises its joined heads") as caught:
        make_context(tmp_path).value_products(trace)
    data = AttentionData(trace, trace.token_similarity, products=str(caught.value))
    assert AttentionView().to_payload(data)["norms"] == {"sentence": str(caught.value)}


def test_attention_of_a_large_model_is_sent_layer_by_layer(cache, tmp_path):
    spec = timm_spec(image_size=112, depth=12, embed_dim=96, num_heads=12)
    trace = trace_image(tmp_path, spec)
    value = AttentionView().to_payload(AttentionData(trace, trace.token_similarity))
    assert len(value["attention"]) == 12
    np.testing.assert_allclose(read_matrix(value["attention"][7])[0], trace.attention[7], atol=1e-3)
    np.testing.assert_allclose(read_matrix(value["rows"]), trace.attention[:, :, :1], atol=1e-3)


def test_repeated_request_reuses_files_and_a_new_rollout_adds_one(cache, tmp_path):
    trace, rollout, counts = (
        trace_image(tmp_path, TIMM_KINDS["class token"]),
        torch.zeros(2, 17, 17),
        [],
    )
    for data in (
        AttentionData(trace, rollout),
        AttentionData(trace, rollout),
        AttentionData(trace, rollout + 1, 1, " (max)"),
    ):
        AttentionView().to_payload(data)
        counts.append(len(list(cache.rglob("*.bin"))))
    assert counts[1:] == [counts[0], counts[0] + 1]


def test_payload_without_attention_contains_the_message():
    value = AttentionView().postprocess("No attention.")
    assert json.loads(value["text"]) == {"sentence": "No attention."}
    assert AttentionView().postprocess(None) is None


def make_event(**data) -> gr.EventData:
    return gr.EventData(None, data)


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
    assert parse_image_request(make_event(**data)) == expected


@pytest.mark.parametrize(
    "data",
    [{}, {"source": 3}, {"source": "x" * 999}, {"source": "own"}, {"source": "own", "path": 3},
     {"source": "own", "path": "/etc/passwd"}, {"source": "own", "path": "../../etc/passwd"}],
)  # fmt: skip
def test_image_request_rejects_files_that_were_not_uploaded(cache, data):
    with pytest.raises(ImageError):
        parse_image_request(make_event(**data))


def test_image_request_accepts_the_path_of_an_uploaded_file(cache):
    (cache / "mine.png").write_bytes(b"x")
    path = str(cache / "mine.png")
    assert parse_image_request(make_event(source="own", path=path, at=0.1)) == ImageRequest(
        "own", path, 0.1
    )


def test_small_image_is_sent_unchanged_and_large_image_downscaled(cache):
    pixels = np.random.default_rng(0).integers(0, 256, (32, 48, 3), dtype=np.uint8)
    small = LoadedImage(ImageRequest("test:3"), Image.fromarray(pixels), "Test image 3.", "cat")
    value = ImageInput().to_payload(small)
    np.testing.assert_array_equal(read_pixels(value["picture"]), pixels)
    assert (value["size"], value["label"], value["source"]) == ([48, 32], "cat", "test:3")
    for size, expected in {(3000, 1000): (640, 213), (10_000, 1): (640, 1)}.items():
        large = LoadedImage(ImageRequest("own"), Image.new("RGB", size), "Your photo.")
        assert read_pixels(ImageInput().to_payload(large)["picture"]).shape[1::-1] == expected
        assert large.uncropped.size == size  # the models' input is unchanged


def test_example_images_are_sent_as_one_sheet_per_group(cache):
    images = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), dtype=np.uint8)
    group = ThumbnailRow(images, ["test:1", "test:2", "test:3"], ["a", "b", "c"])
    value = ExampleImages().to_payload(Examples(None, group, "no photos"))
    assert (value["photos"], value["sentence"]) == (None, "no photos")
    np.testing.assert_array_equal(read_pixels(value["tests"]["sheet"])[:, 8:16], images[1])


def test_prediction_card_sorts_classes_by_probability(tmp_path):
    run = make_run(tmp_path / "vit")
    probabilities = np.arange(10, dtype=np.float32) / 45
    prediction = Prediction(run, np.zeros((16, 16, 3), np.uint8), probabilities, (4, 4))
    (card,) = PredictionCards().to_payload(ImagePredictions([prediction], [], "cat"))["models"]
    assert card["classes"] == list(run.classes[:-4:-1])
    assert card["probabilities"] == sorted(card["probabilities"], reverse=True)
    assert card["accuracy"] == "97.5% test accuracy"
    assert card["about"] == "vit: a vit for tests, 0.0 M parameters, 97.5% test accuracy."


def test_prediction_card_has_no_label_for_a_class_unknown_to_the_model(tmp_path):
    values = np.arange(10, dtype=np.float32) / 45
    runs = make_run(tmp_path / "vit"), make_run(tmp_path / "own", classes=tuple("abcdefghij"))
    cards = [Prediction(run, np.zeros((16, 16, 3), np.uint8), values, (4, 4)) for run in runs]
    value = PredictionCards().to_payload(ImagePredictions(cards, [], "cat"))
    assert value["label"] == "cat"
    assert [card["label"] for card in value["models"]] == ["cat", None]


@pytest.mark.parametrize(
    ("percentile", "label", "start"),
    [
        (None, None, ""),
        (5.0, None, ""),
        (52.0, None, ""),
        (4.9, None, "Possibly none of the 10 classes: less like the training images than 95% of"),
        (1.0, None, "Possibly none of the 10 classes: less like the training images than 99% of"),
        (0.3, None, "Probably none of the 10 classes: less like the training images than 99% of"),
        (0.0, None, "Probably none of the 10 classes: less like the training images than all"),
        (0.3, "cat", "Less like the training images than 99% of validation images."),
        (0.3, "mug", "Probably none of the 10 classes"),
    ],
)
def test_prediction_card_warns_of_an_out_of_distribution_image(tmp_path, percentile, label, start):
    run = make_run(tmp_path / "vit")
    probabilities = np.arange(10, dtype=np.float32) / 45
    prediction = Prediction(run, np.zeros((16, 16, 3), np.uint8), probabilities, (4, 4), percentile)
    (card,) = PredictionCards().to_payload(ImagePredictions([prediction], [], label))["models"]
    assert card["unusual"].startswith(start) and bool(start) == bool(card["unusual"])


def test_notes_explain_label_smoothing(tmp_path):
    run = make_run(tmp_path / "vit")
    run.config["recipe"]["label_smoothing"] = 0.1
    classes, smoothing = prediction_notes([run])
    assert "10 classes: airplane" in classes
    assert "label smoothing 0.1: its target for the true class is 91%" in smoothing
    run.config["recipe"]["label_smoothing"] = 0.0
    assert prediction_notes([run]) == [classes]


def test_map_is_sent_as_numbers_and_a_deleted_folder_is_recreated(cache):
    values = np.array([[0.12345678, 1], [2, -3.5]])
    panel = MapPanel("t", values, np.zeros((4, 4, 3), np.uint8), "alt", signed=True)
    for _ in range(2):
        (row,) = Document().to_payload([MapRow([panel], "intro")])
        (payload,) = row["panels"]
        assert payload["values"] == [[0.123457, 1.0], [2.0, -3.5]]
        path = Path(payload["seen"].path)
        path.unlink()
        path.parent.rmdir()


@pytest.mark.parametrize(
    ("payload", "removed"),
    [
        ({"grid": [8, 8], "removed": [3, 3, 9]}, RemovedPatches((8, 8), (3, 9))),
        ({"grid": [2, 2], "removed": [-1, 4, 1]}, RemovedPatches((2, 2), (1,))),
        ({"grid": [999, 2], "removed": []}, None),
        ({"grid": [2, 2, 2], "removed": []}, None),
        ({"grid": [2, 2], "removed": ["x"]}, None),
        ({"grid": [2, 2], "removed": [True]}, None),
        ({"grid": [2, 2]}, None),
        (None, None),
        ("<b>", None),
    ],
)
def test_removed_patches_of_the_browser_are_validated(payload, removed):
    assert ImageCanvas().preprocess(payload) == removed


def test_masked_patch_has_the_same_colour_in_browser_and_server(cache):
    image = Image.new("RGB", (16, 16), (10, 200, 30))
    value = ImageCanvas().to_payload(
        ChangedImage(image, ImageChanges(removed=RemovedPatches((4, 4), (5,))))
    )
    assert value["hole"] == "rgb(10 200 30)"
    assert (value["grid"], value["removed"]) == ([4, 4], [5])
    assert value["words"] == "1 of 16 patches removed"


def test_payload_omits_unset_fields():
    cell = Cell("0", np.float32(0), (np.nan, 1.0), bar=0.0)
    (payload,) = Document().to_payload([Table(["Name", "Number"], [["a", cell]])])
    assert payload == {
        "kind": "Table",
        "columns": ["Name", "Number"],
        "rows": [
            ["a", {"kind": "Cell", "text": "0", "value": 0, "interval": [None, 1.0], "bar": 0}]
        ],
        "feet": [],
        "folded": [],
    }


def test_file_input_accepts_every_image_suffix():
    (suffixes,) = re.findall(
        'accept="([^"]*)"', (COMPONENTS_FOLDER / "picture.html").read_text("utf-8")
    )
    assert image_suffixes() | {"image/*"} <= set(suffixes.split(","))
