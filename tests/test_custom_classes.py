"""Images of custom classes: limits, zip files, the classifier trained on them, and export."""

import io
import unicodedata
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from tests.data.test_near_duplicates import make_burst_frames, make_scene
from tests.support.factories import RESNET, VIT, make_run, noise
from vitdemo import data, runs
from vitdemo.context import AppContext
from vitdemo.custom_classes import (
    ImageCollection,
    check_collection,
    choose_test_images,
    export_image_folder,
    fit_linear_probe,
    write_probe_run,
)
from vitdemo.data import image_files
from vitdemo.errors import DataError, RunError

BASE = "finetune-deit-tiny"


def make_collection(*names, each=4):
    collection = ImageCollection()
    for i, name in enumerate(names):
        collection = collection.with_class(name)
        for j in range(each):
            collection = collection.with_image(i, noise(100 * i + j), f"{name}-{j}")
    return collection


def write_zip(path, entries):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return path


def to_png(image):
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def digits():
    """Three digits as classes of twelve images each, grey squares of 64 pixels."""
    collection, dataset = ImageCollection(), load_digits()
    for i, digit in enumerate((1, 4, 7)):
        collection = collection.with_class(f"digit {digit}")
        for values in dataset.images[dataset.target == digit][:12]:
            grey = Image.fromarray((255 - values / 16 * 255).astype(np.uint8))
            large = grey.resize((64, 64), Image.Resampling.BICUBIC).convert("RGB")
            collection = collection.with_image(i, large)
    return collection


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    make_run(root / "vit", VIT)
    make_run(root / "resnet", RESNET)
    return AppContext([root], root / "none", torch.device("cpu"))


@pytest.fixture(scope="module")
def learnt(shipped, digits):
    return fit_linear_probe(shipped, shipped.find_run(BASE), digits)


# --- collecting ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "has no name"),
        (None, "has no name"),
        ("a\0b", "has no name"),
        ("x" * 41, "40 characters"),
        (" MUG ", "'MUG' already exists"),
    ],
)
def test_invalid_class_names_are_rejected(name, message):
    with pytest.raises(DataError, match=message):
        ImageCollection().with_class("mug").with_class(name)
    assert ImageCollection().with_class("<b>x</b>").classes[0].name == "<b>x</b>"


def test_exceeded_limits_are_reported_without_data_loss():
    full = make_collection(*map(str, range(20)), each=0)
    with pytest.raises(DataError, match="limit of 20 classes"):
        full.with_class("one more")
    collection = full
    for i in range(500):
        collection = collection.with_image(i % 20, Image.new("RGB", (8, 8), (i % 256, i // 256, 7)))
    with pytest.raises(DataError, match="500 images"):
        collection.with_image(0, noise(0), "late.png")
    assert len(collection) == 500 and len(full) == 0


def test_unreadable_and_duplicate_files_are_reported_and_skipped(tmp_path):
    paths = [tmp_path / name for name in ("good.png", "bad.png", "again.png")]
    noise(1).save(paths[0])
    paths[1].write_text("no picture")
    noise(1).save(paths[2])
    collection, problems = ImageCollection().with_class("a").with_files(0, paths)
    assert len(collection) == 1
    assert "bad.png" in problems[0]
    assert "again.png' was skipped: 'a' already contains" in problems[1]


def test_images_belong_to_one_class_and_can_be_removed():
    collection = make_collection("a", "b")
    with pytest.raises(DataError, match="'a' already contains"):
        collection.with_image(1, noise(0), "x")
    smaller = collection.without(0, 1)
    keys = [image.key for image in collection.classes[0].images]
    assert [image.key for image in smaller.classes[0].images] == [keys[0], *keys[2:]]
    assert [each.name for each in collection.without(0).classes] == ["b"]
    assert len(collection) == 8


# --- zip files -----------------------------------------------------------------------------------


def test_folders_of_a_zip_become_classes(tmp_path):
    entries = {f"set/{name}/{i}.png": to_png(noise(i)) for i, name in enumerate("aabb")}
    entries |= {"__MACOSX/a/._0.png": b"x", "set/a/.DS_Store": b"x", "set/b/notes.txt": b"x"}
    entries |= {"set/ my  cat /0.png": to_png(noise(7)), "set/b/bad.WebP": b"no image"}
    path = write_zip(tmp_path / "z.zip", entries)
    collection, problems = ImageCollection().with_class("A").with_zip(path)
    counts = {each.name: len(each.images) for each in collection.classes}
    assert counts == {"A": 2, "b": 2, "my cat": 1}
    assert problems == [
        "'bad.WebP' in 'b' cannot be read as an image.",
        "Skipped 1 file without an image suffix: set/b/notes.txt.",
    ]


def test_system_files_do_not_count_towards_the_limit_of_a_zip(tmp_path):
    entries = {f"a/{i}.png": to_png(noise(i)) for i in range(2)}
    entries |= {f"__MACOSX/a/._{i}.png": b"x" for i in range(1000)}
    collection, problems = ImageCollection().with_zip(write_zip(tmp_path / "z.zip", entries))
    assert (len(collection), problems) == (2, [])


@pytest.mark.parametrize("top", ["", "set/"])
def test_other_files_and_empty_classes_in_a_zip_are_reported(tmp_path, top):
    entries = {f"{top}a/{i}.png": to_png(noise(i)) for i in range(2)}
    entries |= {f"{top}README.md": b"x", f"{top}LICENSE": b"x", f"{top}b/film.mov": b"x"}
    collection, problems = ImageCollection().with_zip(write_zip(tmp_path / "z.zip", entries))
    assert [(each.name, len(each.images)) for each in collection.classes] == [("a", 2)]
    files = f"{top}README.md, {top}LICENSE, {top}b/film.mov"
    assert problems == [
        f"Skipped 3 files without an image suffix: {files}.",
        "The class 'b' has no images. Add images to its folder.",
    ]


def test_zip_images_outside_class_folders_are_skipped_and_reported(tmp_path):
    entries = {"cover.png": to_png(noise(9)), "a/0.png": to_png(noise(0))}
    collection, problems = ImageCollection().with_zip(write_zip(tmp_path / "z.zip", entries))
    assert len(collection) == 1
    assert problems == ["Skipped images outside class folders: cover.png."]
    path = write_zip(tmp_path / "y.zip", {"README": b"x"})
    collection, problems = ImageCollection().with_zip(path)
    assert len(collection) == 0
    assert problems == [
        "Skipped 1 file without an image suffix: README.",
        "No image was found. Add image files in one folder per class.",
    ]


def write_zip_without_utf8_flag(path, names):
    """Write a zip with the entry `names` as raw bytes, without the flag for their encoding."""
    stand_ins = {f"{i}".encode() * len(name): name for i, name in enumerate(names)}
    entries = {f"set/{mark.decode()}/x.png": to_png(noise(i)) for i, mark in enumerate(stand_ins)}
    content = write_zip(path, entries).read_bytes()
    for mark, name in stand_ins.items():
        assert content.count(b"set/" + mark + b"/x.png") == 2
        content = content.replace(b"set/" + mark + b"/x.png", b"set/" + name + b"/x.png")
    path.write_bytes(content)
    return path


def test_zip_names_are_decoded_as_utf8_or_else_code_page_437(tmp_path):
    names = ["größe", "猫", "café", "plain"]
    raw = [unicodedata.normalize("NFD", name).encode() for name in names]
    path = write_zip_without_utf8_flag(tmp_path / "finder.zip", [*raw, "Öl".encode("cp437")])
    collection, problems = ImageCollection().with_zip(path)
    assert [each.name for each in collection.classes] == [*names, "Öl"]
    assert problems == []
    entries = {
        f"{unicodedata.normalize('NFD', name)}/x.png": to_png(noise(0)) for name in names[:1]
    }
    extended, problems = collection.with_zip(write_zip(tmp_path / "flag.zip", entries))
    assert [each.name for each in extended.classes] == [*names, "Öl"]  # the same class
    assert problems == ["'x.png' was skipped: 'größe' already contains this image."]


def test_folder_upload_follows_the_same_rules_as_a_zip(tmp_path):
    def save(name, seed):
        path = tmp_path / f"{seed}" / name
        path.parent.mkdir()
        path.write_bytes(to_png(noise(seed)) if name.endswith(".png") else b"x")
        return path

    files = [(save("x.png", 0), "set/a"), (save("y.png", 1), "b"), (save("README", 2), "set")]
    files += [(save("z.png", 3), "set/a/.ipynb_checkpoints"), (save("._x.png", 4), "set/a")]
    files += [(save("w.png", 5), "__MACOSX/a"), (save("notes.txt", 6), "set/c")]
    collection, problems = ImageCollection().with_folders(files)
    assert {each.name: len(each.images) for each in collection.classes} == {"a": 1, "b": 1}
    assert problems == [
        "Skipped 2 files without an image suffix: set/README, set/c/notes.txt.",
        "The class 'c' has no images. Add images to its folder.",
    ]


def test_system_files_among_chosen_files_are_ignored(tmp_path):
    noise(0).save(tmp_path / "x.png")
    for name in ("._x.png", "Thumbs.db"):
        (tmp_path / name).write_bytes(b"x")
    paths = [tmp_path / name for name in ("._x.png", "Thumbs.db", "x.png")]
    collection, problems = ImageCollection().with_class("a").with_files(0, paths)
    assert (len(collection), problems) == (1, [])


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_damaged_zip_is_rejected_for_every_compression(tmp_path, method):
    path = tmp_path / "z.zip"
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("a/x.png", to_png(noise(0)))
    content = bytearray(path.read_bytes())
    start = 30 + len("a/x.png")  # first compressed byte, after the header of the entry
    content[start : start + 16] = b"\xff" * 16
    path.write_bytes(content)
    with pytest.raises(DataError, match="cannot be read"):
        ImageCollection().with_zip(path)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"../../a/x.png": b"x"}, "leads outside"),
        ({"a/..\\x.png": b"x"}, "leads outside"),
        ({"/a/x.png": b"x"}, "leads outside"),
        ({"x.png": b"x"}, "not in a folder"),
        ({f"a/{i}.png": b"" for i in range(1001)}, "too large"),
    ],
)
def test_zips_with_unsafe_paths_or_too_many_files_are_rejected(tmp_path, entries, message):
    with pytest.raises(DataError, match=message):
        ImageCollection().with_zip(write_zip(tmp_path / "z.zip", entries))


def test_images_above_the_limit_are_not_decoded(tmp_path, monkeypatch):
    read, load = [], image_files.load_image
    monkeypatch.setattr(image_files, "load_image", lambda path: read.append(path) or load(path))
    entries = {f"a/{i}.png": to_png(noise(i)) for i in range(9)}
    empty = ImageCollection(max_images=3)
    collection, problems = empty.with_zip(write_zip(tmp_path / "z.zip", entries))
    assert len(collection) == len(read) == 3
    assert problems == ["The limit is 3 images. The other images were skipped."]


def test_zip_bombs_and_other_files_are_rejected_before_unpacking(tmp_path, monkeypatch):
    path = write_zip(tmp_path / "z.zip", {f"a/{i}.png": bytes(10**6) for i in range(5)})
    assert path.stat().st_size < 10**5
    monkeypatch.setattr("vitdemo.custom_classes.MAX_UNPACKED_BYTES", 4 * 10**6)
    monkeypatch.setattr(zipfile.ZipFile, "open", None)
    with pytest.raises(DataError, match="too large"):
        ImageCollection().with_zip(path)
    path.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(DataError, match="cannot be read"):
        ImageCollection().with_zip(path)


# --- training ------------------------------------------------------------------------------------


def test_classifier_learns_handwritten_digits(learnt):
    assert learnt.accuracy >= 0.9
    low, high = learnt.interval
    assert 0.8 < low < learnt.accuracy <= high <= 1
    assert learnt.probabilities.shape == (36, 3) and learnt.folds == 5
    np.testing.assert_allclose(learnt.probabilities.sum(1), 1, atol=1e-5)
    assert learnt.classes == ("digit 1", "digit 4", "digit 7")


@pytest.fixture(scope="module")
def lot(shipped):
    """Probe on ten images with random classes and twelve near-identical frames each."""
    order = np.random.default_rng(1).permutation(10)
    collection = ImageCollection().with_class("a").with_class("b")
    for i, seed in enumerate(order):
        for frame in make_burst_frames(make_scene(int(seed)), 12, int(seed)):
            collection = collection.with_image(i % 2, frame)
    return fit_linear_probe(shipped, shipped.find_run("vit-scratch"), collection)


def test_frames_of_one_burst_are_kept_in_one_fold(lot):
    assert len(lot.labels) == 120 and lot.num_groups == 10 and lot.folds == 5
    assert lot.effective_size == pytest.approx(10)
    assert lot.accuracy < 0.9  # the classes are random; folds of single images would give 100%
    low, high = lot.interval
    assert low < 0.6 and high - low > 0.35
    perfect = replace(lot, probabilities=np.eye(2)[lot.labels])
    assert perfect.accuracy == 1
    assert perfect.interval == pytest.approx((0.722, 1), abs=1e-3)  # for 10 images, not 120


def test_classes_of_a_single_burst_are_trained_but_not_tested(shipped, tmp_path):
    collection = ImageCollection()
    for name, seed in (("mug", 1), ("cup", 2)):
        collection = collection.with_class(name)
        for frame in make_burst_frames(make_scene(seed), 8, seed):
            collection = collection.with_image(len(collection.classes) - 1, frame)
    probe = fit_linear_probe(shipped, shipped.find_run("vit-scratch"), collection)
    assert not probe.is_tested and probe.folds == 0
    assert probe.single_group_classes() == ["mug", "cup"]
    run = write_probe_run(shipped, probe, tmp_path / "own")
    assert run.has_weights and not run.has_evaluation
    context = AppContext([tmp_path], None, torch.device("cpu"))
    assert context.test_accuracy(context.find_run("own")) is None
    square = collection.classes[1].images[0].square
    assert context.predict(context.find_run("own"), square).probabilities.argmax() == 1


def test_accuracy_on_noise_images_is_near_chance(context):
    collection = make_collection("a", "b", each=20)
    assert 0.2 < fit_linear_probe(context, context.find_run("vit"), collection).accuracy < 0.8


@pytest.mark.parametrize("count", [2, 3])
def test_written_run_predicts_like_the_fitted_classifier(
    shipped, context, digits, learnt, tmp_path, count
):
    owner, probe = shipped, learnt
    if count == 2:  # the regression has a single row of weights
        owner, pair = context, ImageCollection(digits.classes[:2])
        probe = fit_linear_probe(context, context.find_run("vit"), pair)
    run = write_probe_run(owner, probe, tmp_path / "own")
    assert run.classes == probe.classes and run.has_weights and run.has_evaluation
    reloaded = AppContext([tmp_path], None, torch.device("cpu"))
    own, squares = reloaded.find_run("own"), [image.square for image in probe.images][::2]
    predicted = [reloaded.predict(own, square).probabilities.argmax() for square in squares]
    assert np.mean(np.array(predicted) == probe.labels[::2]) >= 0.94  # its training images
    layer = runs.load_model(run, torch.device("cpu")).head
    np.testing.assert_allclose(layer.weight.detach(), probe.weight, atol=2e-3, rtol=2e-3)
    assert (
        reloaded.trace_image(own, squares[0]).num_layers
        == owner.trace_image(probe.base, squares[0]).num_layers
    )
    np.testing.assert_allclose(run.evaluation.probabilities, probe.probabilities, rtol=2**-15)


def test_too_few_images_and_unsuitable_backbones_are_rejected(context):
    with pytest.raises(DataError, match="too few classes"):
        check_collection(make_collection("a"))
    collection = make_collection("a").with_class("b").with_image(1, noise(7))
    with pytest.raises(DataError, match="'b' has too few images"):
        fit_linear_probe(context, context.find_run("vit"), collection)
    with pytest.raises(RunError, match="'resnet' has no attention heads"):
        fit_linear_probe(context, context.find_run("resnet"), make_collection("a", "b"))


def test_classifier_training_reports_progress_and_can_be_stopped(context):
    progress, collection, run = [], make_collection("a", "b"), context.find_run("vit")
    fit_linear_probe(context, run, collection, report=lambda share, _: progress.append(share))
    assert progress == sorted(progress) and progress[0] >= 0 and progress[-1] < 1

    def stop(fraction, text):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_linear_probe(context, run, collection, report=stop)


# --- export --------------------------------------------------------------------------------------


def test_image_export_handles_arbitrary_class_names(tmp_path):
    names = ("../up", "a/b", "A_b 4", "a_b", "...", "mug & cup", "Thumbs.db", "__MACOSX")
    is_test = np.tile(np.arange(12) < 3, len(names))
    export_image_folder(make_collection(*names, each=12), is_test, tmp_path / "pictures")
    folders = sorted(path.name for path in (tmp_path / "pictures" / "train").iterdir())
    assert folders[:4] == ["A_b 4", "_up", "a_b", "a_b 4 4"]
    assert folders[4:] == ["class 5", "class 7", "class 8", "mug _ cup"]
    for part, count in (("train", 9), ("test", 3)):
        source = data.open_dataset(tmp_path / "pictures")
        assert source.load_labels(part).bincount().tolist() == [count] * 8
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pictures"]


def test_chosen_test_images_are_whole_bursts(shipped):
    base, collection = shipped.find_run("vit-scratch"), ImageCollection()
    for i, name in enumerate("ab"):
        collection = collection.with_class(name)
        for seed in range(4):
            for frame in make_burst_frames(make_scene(10 * i + seed), 3, seed):
                collection = collection.with_image(i, frame)
    is_test = choose_test_images(shipped, base, collection).reshape(8, 3)
    assert (is_test == is_test[:, :1]).all()
    assert is_test[:4].any(axis=1).sum() == is_test[4:].any(axis=1).sum() == 1  # a quarter
    burst = ImageCollection().with_class("mug").with_class("cup")
    for frame in make_burst_frames(make_scene(1), 10):
        burst = burst.with_image(0, frame)
    for seed in range(10):
        burst = burst.with_image(1, make_scene(20 + seed))
    with pytest.raises(DataError, match="All images of 'mug' are near-identical"):
        choose_test_images(shipped, base, burst)


def test_fine_tuning_with_too_few_images_is_rejected(context):
    with pytest.raises(DataError, match="'one' has too few images"):
        choose_test_images(context, context.find_run("vit"), make_collection("one", "two", each=9))
