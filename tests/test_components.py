"""What goes to the browser and what comes back: small values, files, and nothing believed."""

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

from tests.making import KINDS, bench, make_run, timm_spec
from vitdemo.attention import norms
from vitdemo.attention.packed import unpack
from vitdemo.errors import ImageError, RunError
from vitdemo.figures import DIVERGING, SEQUENTIAL
from vitdemo.inputs import image_suffixes, load_image
from vitdemo.page import components
from vitdemo.page.components import FOLDER, as_text, colours, served
from vitdemo.page.components.answers import Answers, PictureAnswers, notes
from vitdemo.page.components.article import Article
from vitdemo.page.components.attention import AttentionView, Drawn
from vitdemo.page.components.canvas import Canvas, Changed
from vitdemo.page.components.maps import MapRow, Maps, Panel
from vitdemo.page.components.offers import Group, Offered, Offers
from vitdemo.page.components.picture import Asked, Picture, Shown, asked
from vitdemo.page.components.pictures import Item, Pictures
from vitdemo.page.components.table import Cell, Table
from vitdemo.perturb.changes import Changes, Removed
from vitdemo.workbench import Answer


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Where gradio keeps files meanwhile."""
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    return tmp_path


def test_what_cannot_be_kept_is_told_and_leaves_nothing(cache, monkeypatch):
    def full(fd, *_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(gr.Error, match="No space left on device"):
        served(Maps(), "numbers", "a.bin", lambda: b"123")
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_of_too_many_files_the_oldest_go_but_none_that_may_still_be_fetched(cache, monkeypatch):
    monkeypatch.setattr(components, "MOST_BYTES", 25)
    monkeypatch.setattr(components, "LOOK_EVERY", 1)

    def make(name: str, age: float) -> Path:
        path = Path(served(Maps(), "numbers", name, lambda: b"0123456789").path)
        os.utime(path, (time.time() - age,) * 2)
        return path

    old = [make(name, age) for name, age in {"a": 3000, "b": 2000, "c": 1000}.items()]
    young = [make(name, 0) for name in "def"]
    assert not any(path.exists() for path in old)
    assert all(path.exists() for path in young)  # more than is allowed, but just made
    assert make("a", 0).read_bytes() == b"0123456789"  # made anew when it is asked for again


def test_a_value_travels_as_one_text_beside_its_files(cache):
    pictures = [np.full((2, 2, 3), grey, np.uint8) for grey in (0, 255)]
    pieces = [Pictures([Item("of one", "grey")], picture) for picture in pictures]
    sent = Article().postprocess([*pieces, Table(["Name"], [["dé"]])])
    black, white, table = json.loads(sent["text"])
    for piece, picture in zip((black, white), pictures, strict=True):
        file = sent["files"][piece["sheet"]["file#"]]
        assert file["meta"]["_type"] == "gradio.FileData"  # so that gradio gives it an address
        np.testing.assert_array_equal(load_image(file["path"]), picture)
    assert table["rows"] == [["dé"]]
    assert Article().postprocess("No run.")["text"] == '[{"kind":"Notice","text":"No run."}]'
    with pytest.raises(TypeError):
        as_text([object()])


def look_of(root: Path, spec, colour="black"):
    picture = Image.new("RGB", (40, 40), colour)
    return bench(root).look(make_run(root / "run", spec), picture)


def content(file: FileData) -> np.ndarray:
    return unpack(Path(file.path).read_bytes())


def shown(file: FileData) -> np.ndarray:
    return np.asarray(load_image(file.path))


@pytest.mark.parametrize("part", sorted(FOLDER.glob("*.html")) + sorted(FOLDER.glob("*.css")))
def test_no_template_holds_a_value(part):
    """gradio runs what a template gives as JavaScript: `${...}` of a name would be run."""
    text = part.read_text(encoding="utf-8")
    assert "${" not in text and "{{" not in text and "`" not in text and "\\" not in text


@pytest.mark.parametrize("script", sorted(FOLDER.glob("*.js")), ids=lambda path: path.stem)
def test_no_script_quotes_what_gradio_would_take_for_an_event(script):
    # gradio takes a quoted name for an event where its HTML has no such attribute. It asks for each
    # parameter of its constructor, and copies what it gets, with the component, at every opening.
    kept = vars(gr.HTML(""))
    asked_for = [name for name in signature(gr.HTML.__init__).parameters if name not in kept]
    assert "every" in asked_for
    text = script.read_text("utf-8")
    assert not [name for name in asked_for if re.search(f"[\"'`]{name}[\"'`]", text)]


def table_of(name: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(colours(name)), np.uint8).reshape(256, 3)


def test_signed_colours_are_purple_against_white_and_orange_for_and_plain_ones_rise_from_black():
    against, none, strong = table_of(DIVERGING)[[0, 128, 255]]
    assert none.min() > 235
    assert against[2] > against[0] and strong[0] > strong[2]
    plain = table_of(SEQUENTIAL).astype(float)
    assert plain[0].max() < 5
    assert (np.diff(plain @ [0.299, 0.587, 0.114]) >= -0.7).all()  # brightness, but for rounding


@pytest.mark.parametrize("kind", KINDS)
def test_the_attention_travels_as_files_of_its_matrices(cache, tmp_path, kind):
    look = look_of(tmp_path, KINDS[kind], (200, 30, 90))
    rolled = torch.rand(2, *look.attention.shape[-2:])
    value = AttentionView().drawn(Drawn(look, rolled, 1, " (min)"))
    assert (value["run"], value["layers"], value["heads"], value["grid"]) == ("run", 2, 3, [4, 4])
    assert value["prefix"] == list(look.prefix_names)
    assert value["rows"] is None and value["rollout"]["words"] == " (min)"
    (whole,) = value["attention"]
    np.testing.assert_allclose(content(whole), look.attention, atol=1e-3)
    np.testing.assert_allclose(content(value["rollout"]["file"])[:, 0], rolled, atol=1e-3)
    np.testing.assert_allclose(content(value["similar"])[:, 0], look.similarity, atol=1e-3)
    np.testing.assert_array_equal(shown(value["seen"]), look.seen)


@pytest.mark.parametrize("kind", KINDS)
def test_norm_weighted_attention_travels_when_it_is_asked_for(cache, tmp_path, kind):
    look = look_of(tmp_path, KINDS[kind], (200, 30, 90))
    workbench = bench(tmp_path)
    products = workbench.value_products(look)
    value = AttentionView().drawn(Drawn(look, look.similarity, products=products))["norms"]
    assert value["rows"] is None
    heads = norms.head_norms(look.attention, products)
    (file,) = value["heads"]
    np.testing.assert_allclose(content(file), heads / heads.sum(-1, keepdim=True), atol=1e-3)
    whole = norms.layer_norms(look.attention, products)
    wanted = whole / whole.sum(-1, keepdim=True)
    np.testing.assert_allclose(content(value["all"])[:, 0], wanted, atol=1e-3)
    assert AttentionView().drawn(Drawn(look, look.similarity))["norms"] is None


def test_why_a_model_has_no_norm_weighted_attention_travels_as_a_sentence(cache, tmp_path):
    look = look_of(tmp_path, timm_spec(scale_attn_norm=True))
    with pytest.raises(RunError, match="normalises its joined heads") as refused:
        bench(tmp_path).value_products(look)
    drawn = Drawn(look, look.similarity, products=str(refused.value))
    assert AttentionView().drawn(drawn)["norms"] == {"sentence": str(refused.value)}


def test_a_large_models_attention_travels_layer_by_layer(cache, tmp_path):
    spec = timm_spec(image_size=112, depth=12, embed_dim=96, num_heads=12)
    look = look_of(tmp_path, spec)
    value = AttentionView().drawn(Drawn(look, look.similarity))
    assert len(value["attention"]) == 12
    np.testing.assert_allclose(content(value["attention"][7])[0], look.attention[7], atol=1e-3)
    np.testing.assert_allclose(content(value["rows"]), look.attention[:, :, :1], atol=1e-3)


def test_the_same_question_makes_no_new_file_and_another_rollout_one(cache, tmp_path):
    look, rolled, counts = look_of(tmp_path, KINDS["class token"]), torch.zeros(2, 17, 17), []
    for drawn in (Drawn(look, rolled), Drawn(look, rolled), Drawn(look, rolled + 1, 1, " (max)")):
        AttentionView().drawn(drawn)
        counts.append(len(list(cache.rglob("*.bin"))))
    assert counts[1:] == [counts[0], counts[0] + 1]


def test_a_model_without_attention_is_a_sentence():
    sent = AttentionView().postprocess("No attention.")
    assert json.loads(sent["text"]) == {"sentence": "No attention."}
    assert AttentionView().postprocess(None) is None


def event(**data) -> gr.EventData:
    return gr.EventData(None, data)


@pytest.mark.parametrize(
    ("data", "wish"),
    [
        ({"source": "photo:cat", "at": 0.2}, Asked("photo:cat", None, 0.2)),
        ({"source": "test:17", "path": "/etc/passwd"}, Asked("test:17")),
        ({"source": "test:17", "at": 7}, Asked("test:17", None, 1.0)),
        ({"source": "test:17", "at": float("nan")}, Asked("test:17")),
        ({"source": "test:17", "at": "x"}, Asked("test:17")),
        ({"source": "test:17", "at": True}, Asked("test:17")),
    ],
)
def test_what_a_browser_asks_for_is_checked(data, wish):
    assert asked(event(**data)) == wish


@pytest.mark.parametrize(
    "data",
    [{}, {"source": 3}, {"source": "x" * 999}, {"source": "own"}, {"source": "own", "path": 3},
     {"source": "own", "path": "/etc/passwd"}, {"source": "own", "path": "../../etc/passwd"}],
)  # fmt: skip
def test_no_file_but_an_uploaded_one_is_opened(cache, data):
    with pytest.raises(ImageError):
        asked(event(**data))


def test_an_uploaded_file_is_asked_for_by_its_path(cache):
    (cache / "mine.png").write_bytes(b"x")
    path = str(cache / "mine.png")
    assert asked(event(source="own", path=path, at=0.1)) == Asked("own", path, 0.1)


def test_a_small_picture_reaches_the_browser_exactly_and_a_large_one_small(cache):
    pixels = np.random.default_rng(0).integers(0, 256, (32, 48, 3), dtype=np.uint8)
    small = Shown(Asked("test:3"), Image.fromarray(pixels), "Test image 3.", "cat")
    value = Picture().drawn(small)
    np.testing.assert_array_equal(shown(value["picture"]), pixels)
    assert (value["size"], value["label"], value["source"]) == ([48, 32], "cat", "test:3")
    for size, sent in {(3000, 1000): (640, 213), (10_000, 1): (640, 1)}.items():
        large = Shown(Asked("own"), Image.new("RGB", size), "Your photo.")
        assert shown(Picture().drawn(large)["picture"]).shape[1::-1] == sent
        assert large.whole.size == size  # what the models get is not touched


def test_what_is_offered_is_one_sheet_a_group(cache):
    pictures = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), dtype=np.uint8)
    group = Group(pictures, ["test:1", "test:2", "test:3"], ["a", "b", "c"])
    value = Offers().drawn(Offered(None, group, "no photos"))
    assert (value["photos"], value["sentence"]) == (None, "no photos")
    np.testing.assert_array_equal(shown(value["tests"]["sheet"])[:, 8:16], pictures[1])


def test_a_card_has_the_likeliest_classes_first(tmp_path):
    run = make_run(tmp_path / "vit")
    shares = np.arange(10, dtype=np.float32) / 45
    answer = Answer(run, np.zeros((16, 16, 3), np.uint8), shares, (4, 4))
    (card,) = Answers().drawn(PictureAnswers([answer], [], "cat"))["models"]
    assert card["classes"] == list(run.classes[:-4:-1])
    assert card["probabilities"] == sorted(card["probabilities"], reverse=True)
    assert card["accuracy"] == "97.5% test accuracy"
    assert card["about"] == "vit: a vit for tests, 0.0 M parameters, 97.5% test accuracy."


def test_no_model_is_wrong_about_a_class_that_it_does_not_know(tmp_path):
    shares = np.arange(10, dtype=np.float32) / 45
    runs = make_run(tmp_path / "vit"), make_run(tmp_path / "own", classes=tuple("abcdefghij"))
    found = [Answer(run, np.zeros((16, 16, 3), np.uint8), shares, (4, 4)) for run in runs]
    value = Answers().drawn(PictureAnswers(found, [], "cat"))
    assert value["label"] == "cat"
    assert [card["label"] for card in value["models"]] == ["cat", None]


@pytest.mark.parametrize(
    ("percentile", "label", "words"),
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
def test_a_card_warns_of_an_image_unlike_the_training_images(tmp_path, percentile, label, words):
    run = make_run(tmp_path / "vit")
    shares = np.arange(10, dtype=np.float32) / 45
    answer = Answer(run, np.zeros((16, 16, 3), np.uint8), shares, (4, 4), percentile)
    (card,) = Answers().drawn(PictureAnswers([answer], [], label))["models"]
    assert card["unusual"].startswith(words) and bool(words) == bool(card["unusual"])


def test_why_a_clear_picture_gets_no_hundred_percent_is_said(tmp_path):
    run = make_run(tmp_path / "vit")
    run.config["recipe"]["label_smoothing"] = 0.1
    classes, smoothing = notes([run])
    assert "10 classes: airplane" in classes
    assert "label smoothing 0.1: its target for the true class is 91%" in smoothing
    run.config["recipe"]["label_smoothing"] = 0.0
    assert notes([run]) == [classes]


def test_a_map_is_sent_as_its_numbers_and_a_folder_that_is_gone_is_made_again(cache):
    values = np.array([[0.123456, 1], [2, -3.5]])
    panel = Panel("t", values, np.zeros((4, 4, 3), np.uint8), "alt", signed=True)
    for _ in range(2):
        (sent,) = Maps().drawn(MapRow([panel], "intro"))["panels"]
        assert (sent["grid"], sent["values"]) == ([2, 2], [0.1235, 1.0, 2.0, -3.5])
        path = Path(sent["seen"].path)
        path.unlink()
        path.parent.rmdir()


@pytest.mark.parametrize(
    ("payload", "removed"),
    [
        ({"grid": [8, 8], "removed": [3, 3, 9]}, Removed((8, 8), (3, 9))),
        ({"grid": [2, 2], "removed": [-1, 4, 1]}, Removed((2, 2), (1,))),
        ({"grid": [999, 2], "removed": []}, None),
        ({"grid": [2, 2, 2], "removed": []}, None),
        ({"grid": [2, 2], "removed": ["x"]}, None),
        ({"grid": [2, 2], "removed": [True]}, None),
        ({"grid": [2, 2]}, None),
        (None, None),
        ("<b>", None),
    ],
)
def test_patches_that_a_browser_takes_away_are_checked(payload, removed):
    assert Canvas().preprocess(payload) == removed


def test_a_hole_has_the_colour_that_the_server_paints_it_in(cache):
    picture = Image.new("RGB", (16, 16), (10, 200, 30))
    value = Canvas().drawn(Changed(picture, Changes(removed=Removed((4, 4), (5,)))))
    assert value["hole"] == "rgb(10 200 30)"
    assert (value["grid"], value["removed"]) == ([4, 4], [5])
    assert value["words"] == "1 of 16 patches removed"


def test_pieces_become_json_without_what_says_nothing():
    cell = Cell("0", np.float32(0), (np.nan, 1.0), bar=0.0)
    (found,) = Article().drawn([Table(["Name", "Number"], [["a", cell]])])
    assert found == {
        "kind": "Table",
        "columns": ["Name", "Number"],
        "rows": [
            ["a", {"kind": "Cell", "text": "0", "value": 0, "interval": [None, 1.0], "bar": 0}]
        ],
        "feet": [],
        "folded": [],
    }


def test_every_kind_of_image_can_be_chosen_for_a_picture():
    (kinds,) = re.findall('accept="([^"]*)"', (FOLDER / "picture.html").read_text("utf-8"))
    assert image_suffixes() | {"image/*"} <= set(kinds.split(","))
