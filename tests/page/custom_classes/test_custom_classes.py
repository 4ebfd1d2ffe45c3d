"""Custom classes: limits of the collection, and the classifier trained on it."""

import asyncio
import base64
import io
import re
import time
import unicodedata
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import gradio as gr
import numpy as np
import pytest
import torch
from gradio.state_holder import SessionState
from PIL import Image
from sklearn.datasets import load_digits

from tests.data.test_near_duplicates import make_burst_frames, make_scene
from tests.support.factories import TIMM_KINDS, VIT, make_run, noise
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
from vitdemo.errors import DataError, ImageError, JobError, RunError, Stopped
from vitdemo.jobs import JobQueue, state
from vitdemo.page import bridge, custom_classes
from vitdemo.page.custom_classes import classifier, editor, fine_tuning, models, results, trial
from vitdemo.page.custom_classes.session import CustomClassesSession
from vitdemo.page.gradio_patches import AppBlocks
from vitdemo.page.kit import SESSION_QUEUES
from vitdemo.runs import CUSTOM_CLASSES_RECIPE
from vitdemo.training.recipes import get_recipe

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
    make_run(root / "distilled", TIMM_KINDS["distilled"])
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
        ("x" * 41, "40 letters"),
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
    collection, problems = (
        ImageCollection().with_class("A").with_zip(write_zip(tmp_path / "z.zip", entries))
    )
    assert {each.name: len(each.images) for each in collection.classes} == {"A": 2, "b": 2}
    assert problems == ["Skipped 1 file without an image suffix: set/b/notes.txt."]


def test_system_files_in_a_zip_are_ignored_at_any_depth(tmp_path):
    entries = {f"set/{name}/{i}.png": to_png(noise(i)) for i, name in enumerate("aabb")}
    folders = (
        ".ipynb_checkpoints",
        "__MACOSX",
        "@eaDir",
        "$RECYCLE.BIN",
        "#recycle",
        ".thumbnails",
    )
    for i, name in enumerate(folders):
        for template in ("{}", "set/{}", "set/a/{}", "set/a/{}/b", "{}/set/a"):
            entries[f"{template.format(name)}/x.png"] = to_png(noise(100 + i))
    entries |= {f"set/a/{name}": b"x" for name in ("._0.png", "Thumbs.db", "~$n.docx", "Icon\r")}
    collection, problems = ImageCollection().with_zip(write_zip(tmp_path / "z.zip", entries))
    assert {each.name: len(each.images) for each in collection.classes} == {"a": 2, "b": 2}
    assert problems == []


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
        "The class 'b' has no images.",
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


def test_all_image_formats_in_a_zip_are_read_and_damage_is_reported(tmp_path):
    kinds = {"0.HEIC": "HEIF", "1.hif": "HEIF", "2.avif": "AVIF", "3.gif": "GIF", "4.jfif": "JPEG"}
    entries = {}
    for i, (name, kind) in enumerate(kinds.items()):
        buffer = io.BytesIO()
        noise(i).save(buffer, kind)
        entries[f"a/{name}"] = buffer.getvalue()
    entries["a/bad.WebP"] = b"no image"
    collection, problems = ImageCollection().with_zip(write_zip(tmp_path / "z.zip", entries))
    assert len(collection) == 5
    assert problems == ["'bad.WebP' in 'a' cannot be read as an image."]


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


def test_class_names_are_normalised_to_unicode_nfc():
    composed, decomposed = (unicodedata.normalize(form, "größe") for form in ("NFC", "NFD"))
    assert ImageCollection().with_class(decomposed).classes[0].name == composed
    with pytest.raises(DataError, match="'größe' already exists"):
        ImageCollection().with_class(composed).with_class(decomposed)


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
        "The class 'c' has no images.",
    ]


def test_system_files_among_chosen_files_are_ignored(tmp_path):
    noise(0).save(tmp_path / "x.png")
    for name in ("._x.png", "Thumbs.db"):
        (tmp_path / name).write_bytes(b"x")
    paths = [tmp_path / name for name in ("._x.png", "Thumbs.db", "x.png")]
    collection, problems = ImageCollection().with_class("a").with_files(0, paths)
    assert (len(collection), problems) == (1, [])


def test_extra_spaces_in_folder_names_are_removed(tmp_path):
    entries = {f" my  cat /{i}.png": to_png(noise(i)) for i in range(3)}
    collection, problems = ImageCollection().with_zip(write_zip(tmp_path / "z.zip", entries))
    assert {each.name: len(each.images) for each in collection.classes} == {"my cat": 3}
    assert problems == []


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
    collection, problems = ImageCollection(max_images=3).with_zip(
        write_zip(tmp_path / "z.zip", entries)
    )
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


def test_classifier_learns_handwritten_digits(learnt, digits):
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
    warning = results.describe_test(lot)["warning"]
    assert "The 120 images form only 10 groups of near-identical images" in warning


def test_near_identical_warning_is_shown_even_at_full_accuracy(lot):
    perfect = replace(lot, probabilities=np.eye(2)[lot.labels])
    assert perfect.accuracy == 1
    assert perfect.interval == pytest.approx((0.722, 1), abs=1e-3)  # for 10 images, not 120
    assert results.describe_test(perfect)["warning"]


def test_classes_of_a_single_burst_are_trained_but_not_tested(shipped, tmp_path):
    collection = ImageCollection()
    for name, seed in (("mug", 1), ("cup", 2)):
        collection = collection.with_class(name)
        for frame in make_burst_frames(make_scene(seed), 8, seed):
            collection = collection.with_image(len(collection.classes) - 1, frame)
    probe = fit_linear_probe(shipped, shipped.find_run("vit-scratch"), collection)
    assert not probe.is_tested and probe.folds == 0
    text = results.describe_test(probe)["untested"]
    assert "accuracy was not measured" in text and "within the classes 'mug', 'cup', so" in text
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
    with pytest.raises(RunError, match="second classifier head, for distillation"):
        fit_linear_probe(context, context.find_run("distilled"), make_collection("a", "b"))


def test_classifier_training_reports_progress_and_can_be_stopped(context):
    progress, collection, run = [], make_collection("a", "b"), context.find_run("vit")
    fit_linear_probe(context, run, collection, report=lambda share, _: progress.append(share))
    assert progress == sorted(progress) and progress[0] >= 0 and progress[-1] < 1

    def stop(fraction, text):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_linear_probe(context, run, collection, report=stop)


# --- the tab -------------------------------------------------------------------------------------


def act(context, session, **fields):
    """Apply an edit, and return the names of the classes."""
    editor.edit(context, session, fields)
    return [each.name for each in session.collection.classes]


def test_browser_actions_are_applied_and_undone(context):
    session = CustomClassesSession(notice="an old message")
    assert act(context, session, what="class", name="mug") == ["mug"]
    assert (session.message, session.notice) == ("1 class, 0 of at most 500 images.", "")
    assert act(context, session, what="remove", name="mug") == []
    assert session.collection == ImageCollection()
    assert act(context, session, what="undo") == ["mug"]
    act(context, session, what="class", name="cup")
    act(context, session, what="remove", name="mug")
    with pytest.raises(DataError, match="already removed"):  # "cup" now has the index of "mug"
        act(context, session, what="pictures", name="mug", paths=[])
    act(context, session, what="undo")
    act(context, session, what="remove", name="cup")
    session.previous_collection = None
    with pytest.raises(DataError, match="no step to undo"):
        act(context, session, what="undo")


STATE = {"model": "vit", "image": None, classifier.MODEL: "vit"}


@pytest.fixture
def owned(context, monkeypatch):
    """`context` for the session "me"."""
    monkeypatch.setattr(context, "_get_session_id", lambda: "me")
    return context


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    """Queue of jobs that everybody may use, without starting any process."""
    monkeypatch.setattr(JobQueue, "_start_next", lambda *_: None)
    return JobQueue(tmp_path / "runs", None, "cpu", for_all=True)


def ask(context, session, jobs=None, **options):
    """Return the payload of the models, without controls."""
    state = bridge.parse_view_state(STATE | options)
    return models.payload(context, state, session, jobs).data


def train(context, session, report=lambda *_: None):
    classifier.train(context, bridge.parse_view_state(STATE), report, session)


def test_concurrent_actions_of_a_session_are_not_lost(owned, cache, monkeypatch):
    """Add a class while the same session adds other classes and trains a classifier."""
    probe = fit_linear_probe(owned, owned.find_run("vit"), make_collection("a", "b"))

    async def use_page():
        controls = {}
        with AppBlocks(serial_queues=SESSION_QUEUES) as page:
            own = custom_classes.build(owned, controls)
            bridge.build(owned, own.payloads, own.tasks, own.actions, controls, {})
        handlers = {fn.name: fn for fn in page.fns.values()}
        session, request = SessionState(page), SimpleNamespace(session_hash="me")
        started, loop = asyncio.Event(), asyncio.get_running_loop()

        async def call(handler, **data):
            """Send a request of the browser, and return the last response."""
            data |= {"id": 1, "state": STATE}
            answer = {"iterator": None, "is_generating": True}
            while answer["is_generating"]:
                answer = await page.process_api(
                    handlers[handler],
                    [],
                    session,
                    request=request,
                    event_data=gr.EventData(None, data),
                    iterator=answer["iterator"],
                )
                if not answer["is_generating"]:
                    return answer["data"]

        def edit(**fields):
            return call("act", action="own.edit", fields=fields)

        def delay(function):
            def wait_and_call(*arguments, **options):
                loop.call_soon_threadsafe(started.set)
                time.sleep(0.3)
                return function(*arguments)

            return wait_and_call

        def find_value():
            values = [session[block] for block in page.blocks]
            return next(each for each in values if isinstance(each, CustomClassesSession))

        monkeypatch.setattr(editor, "add_test_images", delay(lambda _, now: now.with_class("a")))
        monkeypatch.setattr(classifier, "fit_linear_probe", delay(lambda *_: probe))
        addition = asyncio.create_task(edit(what="tests"))
        await started.wait()
        await edit(what="class", name="mug")
        await addition
        assert [each.name for each in find_value().collection.classes] == ["a", "mug"]
        started.clear()
        training = asyncio.create_task(call("run_task", task="own.train"))
        await started.wait()
        answer = await edit(what="class", name="cup")
        assert '"a"' in str(answer) and '"cup"' in str(answer) and '"can_save":false' in str(answer)
        await training
        assert [each.name for each in find_value().collection.classes] == ["a", "mug", "cup"]
        assert find_value().probe is probe
        lifetimes = [component.time_to_live for component, *_ in session.state_components]
        assert lifetimes == [custom_classes.SESSION_LIFETIME]  # each use restarts it

    with ThreadPoolExecutor(1) as thread:  # this thread may have the event loop of browser tests
        thread.submit(asyncio.run, use_page()).result()


def test_data_of_a_user_need_a_session(owned):
    async def build():
        with AppBlocks():  # without a loop gradio opens one and leaves it open
            return custom_classes.build(owned, {}).payloads

    with ThreadPoolExecutor(1) as thread:
        payloads = thread.submit(asyncio.run, build()).result()
    for payload in payloads.values():
        with pytest.raises(RunError, match="needs a browser session"):
            payload(owned, bridge.parse_view_state(STATE))


def test_published_model_is_replaced_and_unpublished(owned, jobs):
    session = CustomClassesSession(make_collection("a", "b"))
    train(owned, session)

    def published():
        return sorted(path.name for path in jobs.root.glob("own-*"))

    for number in (1, 2):  # the second published model replaces the first
        classifier.publish(owned, session, jobs)
        assert published() == [f"own-a-b-{number}"]
    classifier.unpublish(session, jobs)
    assert published() == []
    classifier.publish(owned, session, jobs)
    jobs.delete("own-a-b-1")
    jobs.register_run("own-a-b", lambda folder: None)  # another user publishes a model of that name
    classifier.publish(owned, session, jobs)
    assert "The previously published model" not in session.notice
    assert published() == ["own-a-b-1", "own-a-b-2"]
    jobs.limits = replace(jobs.limits, kept=2)
    classifier.publish(owned, session, jobs)
    assert "The previously published model 'own-a-b-2' was deleted." in session.notice
    assert published() == ["own-a-b-1", "own-a-b-3"]
    jobs.delete("own-a-b-3")
    jobs.register_run("own-a-b", lambda folder: None)
    classifier.unpublish(session, jobs)
    assert "was already deleted in the tab Train" in session.notice
    with pytest.raises(JobError, match="have not published a model"):
        classifier.unpublish(session, jobs)
    assert published() == ["own-a-b-1", "own-a-b-2"]


def test_only_actions_that_apply_are_offered(owned, jobs):
    session = CustomClassesSession(make_collection("a", "b", each=10))

    def offered(jobs=jobs):
        data = ask(owned, session, jobs)
        return {name[4:] for name, value in data.items() if value is True and name[:4] == "can_"}

    assert offered() == {"fine_tune"}
    assert offered(jobs=None) == offered(JobQueue(jobs.root, for_all=False)) == set()
    session.collection = make_collection("a", "b", each=9)
    assert offered() == set()
    train(owned, session)
    assert offered() == {"save", "publish"} and offered(jobs=None) == {"save"}
    classifier.publish(owned, session, jobs)
    assert offered() == {"save", "unpublish"}
    train(owned, session)  # another model than the published one
    assert offered() == {"save", "publish", "unpublish"}


def test_cancelled_training_keeps_the_previous_classifier(owned):
    session = CustomClassesSession(make_collection("a", "b"))
    train(owned, session)
    before = (session.probe, session.probe_folder)

    def cancel(done, total, text):
        raise Stopped

    with pytest.raises(Stopped):
        train(owned, session, cancel)
    assert (session.probe, session.probe_folder) == before and before[1].is_dir()
    session.delete_all(None)  # when the session ends
    assert not before[1].exists()


def test_saved_model_is_a_zip_of_a_run_folder(owned):
    session, state = CustomClassesSession(make_collection("a", "b")), bridge.parse_view_state(STATE)
    with pytest.raises(DataError, match="No classifier has been trained yet"):
        classifier.save(owned, state, None, session)
    train(owned, session)
    saved = classifier.save(owned, state, None, session)
    assert saved["name"] == "own-a-b.zip" and saved["file"].name.endswith("/own-a-b.zip")
    members = zipfile.ZipFile(io.BytesIO(saved["file"].make_content())).namelist()
    assert {"own-a-b/config.json", "own-a-b/model.safetensors"} <= {*members}


@pytest.mark.parametrize(
    "data",
    [
        {"what": "format c:"},
        {"what": "class", "name": 3},
        {"what": "pictures", "name": "gone"},
        {"what": "pictures", "name": True, "paths": []},
        {"what": "pictures", "name": "a", "paths": ["/etc/passwd"]},
        {"what": "pictures", "name": "a", "paths": [7]},
        {"what": "pictures", "name": "a", "paths": ["x"] * 501},
        {"what": "remove", "name": "a", "picture": 0},
        {"what": "remove"},
        {"what": "zip", "paths": ["../z.zip"]},
        {"what": "folder", "paths": [], "names": ["a"]},
        {"what": "folder", "paths": [], "names": [3]},
        {"what": "folder", "paths": ["/etc/passwd"], "names": ["a"]},
        {},
    ],
)
def test_invalid_browser_actions_are_rejected(data, cache):
    with pytest.raises(DataError):
        editor.parse_edit_action(data, ImageCollection().with_class("a"))


def test_results_state_the_sample_size_and_its_limits(learnt, tmp_path):
    session = CustomClassesSession(learnt.collection)
    assert results.payload(session) == {}
    session.probe, session.probe_folder = learnt, tmp_path / "own"
    found = results.payload(session)
    assert re.fullmatch(r"\d+\.\d%", found["accuracy"])
    assert found["sample"].startswith("accuracy on 36 images, 95% confidence interval")
    assert "so the interval is" in found["warning"] and "(5 folds)" in found["about"][0]
    matrix = np.array(found["matrix"])
    assert matrix.sum() == 36 and found["classes"] == learnt.classes
    assert found["error_count"] == 36 - np.trace(matrix) == len(found["errors"])
    for each in found["errors"]:
        assert matrix[each["true"], each["predicted"]] and each["true"] != each["predicted"]
    side = found["sheet"].pixels.shape if found["errors"] else (0, 0)
    assert side[1] == side[0] * len(found["errors"])
    assert [row[0] for row in found["metrics"]] == [*learnt.classes]


def make_photo(image: Image.Image) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=95)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def test_classifier_is_tried_on_photos_and_files(owned, cache):
    session = CustomClassesSession(make_collection("a", "b"))
    image = session.collection.classes[1].images[0].square.resize((64, 64))
    with pytest.raises(DataError, match="No classifier has been trained yet"):
        trial.predict(owned, session, {"photo": make_photo(image)})
    assert trial.payload(session) == {"model": "", "is_current": False, "shares": []}
    train(owned, session)
    image.save(cache / "image.png")
    for fields in ({"photo": make_photo(image)}, {"path": str(cache / "image.png")}):
        assert trial.predict(owned, session, fields) == ["custom_classes_trial"]
        found = trial.payload(session)
        assert (found["model"], found["is_current"]) == ("own-a-b", True)
        shares = dict(found["shares"])
        assert {*shares} == {"a", "b"} and sum(shares.values()) == pytest.approx(1, abs=1e-3)
        assert found["shares"][0][1] >= found["shares"][1][1]
    # The same probabilities as those of the run in every tab, within the precision of its weights.
    (run,) = [run for run in owned.list_runs()[0] if run.path == session.probe_folder]
    expected = owned.predict(run, image).probabilities
    assert [shares[name] for name in run.classes] == pytest.approx(expected.tolist(), abs=0.01)
    session.collection = session.collection.with_class("c")
    assert not trial.payload(session)["is_current"]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"photo": 3},
        {"photo": "data:image/png;base64,AAAA"},
        {"photo": "data:image/jpeg;base64,*"},
        {"photo": "data:image/jpeg;base64," + "A" * 500_000},
        {"path": "/etc/passwd"},
        {"path": ["x"]},
    ],
)
def test_invalid_photos_are_rejected(fields, cache):
    with pytest.raises(DataError, match="The image was not received"):
        trial.read_browser_image(fields)
    with pytest.raises(ImageError, match="not an image"):
        trial.read_browser_image({"photo": "data:image/jpeg;base64,AAAA"})


def test_missing_images_are_explained(owned):
    session = CustomClassesSession()
    assert ask(owned, session)["missing"].startswith("There are too few classes (0).")
    session.collection = make_collection("a", "b")
    data = ask(owned, session)
    assert (data["missing"], data["is_current"]) == ("", False)
    train(owned, session)
    assert ask(owned, session)["is_current"]


def test_run_name_contains_only_safe_characters(learnt):
    unsafe = SimpleNamespace(classes=("../x", "<b>", "ÄÖ", "four"))
    assert classifier.make_run_name(unsafe) == "own-x-b"
    assert classifier.make_run_name(SimpleNamespace(classes=("猫", "犬"))) == "own-classes"
    assert classifier.make_run_name(learnt) == "own-digit1-digit4-digit7"


def test_editor_payload_has_counts_and_contact_sheets():
    collection = make_collection("a").with_class("b")
    payload = editor.payload(CustomClassesSession(collection, message="x", problems=("y",)))
    assert [(each["name"], each["count"]) for each in payload["classes"]] == [("a", 4), ("b", 0)]
    with Image.open(io.BytesIO(payload["classes"][0]["sheet"].make_content())) as sheet:
        assert sheet.size == (4 * 56, 56)
    assert payload["classes"][1]["sheet"] is None
    assert (payload["message"], payload["problems"]) == ("x", ["y"])
    assert set(payload["accept"].split(",")) == {"image/*", *image_files.image_suffixes()}
    assert {"__macosx", "thumbs.db", "@eadir"} <= set(payload["system"])


# --- fine-tuning ---------------------------------------------------------------------------------


def test_image_export_handles_arbitrary_class_names(tmp_path):
    names = ("../up", "a/b", "A_b 4", "a_b", "...", "mug & cup")
    is_test = np.tile(np.arange(12) < 3, len(names))
    export_image_folder(make_collection(*names, each=12), is_test, tmp_path / "pictures")
    folders = sorted(path.name for path in (tmp_path / "pictures" / "train").iterdir())
    assert folders == ["A_b 4", "_up", "a_b", "a_b 4 4", "class 5", "mug _ cup"]
    for part, count in (("train", 9), ("test", 3)):
        source = data.open_dataset(tmp_path / "pictures")
        assert source.load_labels(part).bincount().tolist() == [count] * 6
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pictures"]


def test_class_named_like_a_system_file_is_renamed_on_export(tmp_path):
    is_test = np.arange(36) % 4 == 3
    export_image_folder(
        make_collection("Thumbs.db", "__MACOSX", "cup", each=12), is_test, tmp_path / "pictures"
    )
    assert data.open_dataset(tmp_path / "pictures").classes == ("class 1", "class 2", "cup")


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


@pytest.fixture
def tuning(jobs, tmp_path):
    """Context with a DeiT-Tiny, and a session with enough images to fine-tune it."""
    make_run(tmp_path / "runs" / "deit", get_recipe(CUSTOM_CLASSES_RECIPE).model)
    make_run(tmp_path / "runs" / "vit", VIT)
    context = AppContext([jobs.root], None, torch.device("cpu"), get_session_id=lambda: "me")
    return context, CustomClassesSession(make_collection("a", "b", each=10))


def fine_tune(context, session, jobs, **options):
    state = bridge.parse_view_state(STATE | {classifier.MODEL: "deit"} | options)
    fine_tuning.fine_tune(context, state, lambda *_: None, session, jobs)


def list_images(folder):
    return [path.name for path in folder.rglob("*.png")]


@pytest.mark.parametrize("options", [{}, {fine_tuning.AUDIENCE: "me"}, {fine_tuning.AUDIENCE: 1}])
def test_fine_tuning_is_private_by_default(tuning, jobs, options):
    context, session = tuning
    fine_tune(context, session, jobs, **options)
    assert jobs.list_jobs() == [] and list_images(jobs.root) == []
    assert len(list_images(context.private_root())) == 20
    assert ask(context, session, jobs)["tuned"] == {
        "text": "waiting for other training runs",
        "done": 0.0,
        "is_active": True,
        "can_save": False,
    }
    with pytest.raises(JobError, match="There is no fine-tuned model"):
        fine_tuning.save(session)
    with pytest.raises(JobError, match="A model is being fine-tuned"):
        fine_tune(context, session, jobs)
    fine_tuning.discard_fine_tuned(session, jobs)
    assert ask(context, session, jobs)["tuned"] is None
    assert list_images(context.private_root()) == []


def test_public_fine_tuning_needs_the_choice_of_all_users(tuning, jobs):
    context, session = tuning
    fine_tune(context, session, jobs, **{fine_tuning.AUDIENCE: fine_tuning.PUBLIC})
    assert [job.name for job in jobs.list_jobs()] == ["own-classes-1"]
    assert len(list_images(jobs.root / "own-classes-1")) == 20
    assert "All users of this page see this training run" in session.notice
    assert session.tuned_folder is None


def test_images_of_a_fine_tuning_are_deleted_with_the_session(tuning, jobs):
    context, session = tuning
    fine_tune(context, session, jobs)
    session.delete_all(jobs)
    assert list_images(context.private_root()) == []


def test_fine_tuned_model_is_only_in_the_session_of_its_user(tuning, jobs, monkeypatch):
    context, session = tuning
    fine_tune(context, session, jobs)
    folder = session.tuned_folder
    make_run(folder, VIT)
    monkeypatch.setattr(state, "read_job", lambda _: {"arguments": [], "made": True})
    tuned = ask(context, session, jobs)["tuned"]
    assert not tuned["is_active"] and "'own-classes-1' was fine-tuned, with " in tuned["text"]
    assert "own-classes-1" in [run.name for run in context.list_runs()[0]]
    # Its user can download the run, without the images and without paths of the server.
    assert tuned["can_save"]
    runs.write_config(folder, runs.read_config(folder) | {"command": "--out /secret"})
    saved = fine_tuning.save(session)
    assert saved["name"] == "own-classes-1.zip"
    with zipfile.ZipFile(io.BytesIO(saved["file"].make_content())) as file:
        assert not [name for name in file.namelist() if name.endswith((".png", "job.json"))]
        assert "secret" not in file.read("own-classes-1/config.json").decode()
        file.extractall(folder.parent / "unpacked")
    unpacked = runs.read_run(folder.parent / "unpacked" / "own-classes-1")
    assert runs.load_model(unpacked, torch.device("cpu")) is not None
    monkeypatch.setattr(context, "_get_session_id", lambda: "somebody else")
    assert "own-classes-1" not in [run.name for run in context.list_runs()[0]]


def test_private_and_other_backbones_are_not_fine_tuned(tuning, jobs):
    context, session = tuning
    make_run(context.private_root() / "mine", get_recipe(CUSTOM_CLASSES_RECIPE).model)
    for name in ("vit", "mine"):
        refusal = ask(context, session, jobs, **{classifier.MODEL: name})["refusal"]
        assert refusal.endswith(f"Choose such a backbone instead of '{name}'.")
        with pytest.raises(JobError, match="Choose such a backbone"):
            fine_tune(context, session, jobs, **{classifier.MODEL: name})
    assert ask(context, session, jobs, **{classifier.MODEL: "deit"})["refusal"] == ""


def test_saved_images_can_be_added_again(tmp_path):
    session = CustomClassesSession()
    with pytest.raises(DataError, match="There are no images to save"):
        editor.save_images(session)
    session.collection = make_collection("a", "two words")
    found = editor.save_images(session)
    path = tmp_path / found["name"]
    path.write_bytes(found["file"].make_content())
    again, problems = ImageCollection().with_zip(path)
    assert problems == []
    keys = [
        {own.name: [image.key for image in own.images] for own in collection.classes}
        for collection in (session.collection, again)
    ]
    assert keys[0] == keys[1]
