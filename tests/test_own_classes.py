"""Custom classes: limits of the collection, and the classifier trained on it."""

import asyncio
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

from tests.making import KINDS, VIT, make_run
from tests.test_near_duplicates import frames, scene
from vitdemo import data, inputs, runs
from vitdemo.errors import DataError, RunError
from vitdemo.jobs import Jobs
from vitdemo.own_classes import Collection, check, choose_test_images, lay_down, learn, write
from vitdemo.page import own_classes as tab
from vitdemo.page.components.article import Notice
from vitdemo.page.components.own_classes import OwnClasses, wish
from vitdemo.page.kit import Page, Stops
from vitdemo.workbench import Workbench

BASE = "finetune-deit-tiny"


def noise(seed, side=40):
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def filled(*names, each=4):
    found = Collection()
    for i, name in enumerate(names):
        found = found.with_class(name)
        for j in range(each):
            found = found.with_picture(i, noise(100 * i + j), f"{name}-{j}")
    return found


def zipped(path, entries):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return path


def png(image):
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def digits():
    """Return a collection of three digits, twelve images each, as grey squares of 64 pixels."""
    found, data = Collection(), load_digits()
    for i, digit in enumerate((1, 4, 7)):
        found = found.with_class(f"digit {digit}")
        for values in data.images[data.target == digit][:12]:
            grey = Image.fromarray((255 - values / 16 * 255).astype(np.uint8))
            large = grey.resize((64, 64), Image.Resampling.BICUBIC).convert("RGB")
            found = found.with_picture(i, large)
    return found


@pytest.fixture(scope="module")
def workbench(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    make_run(root / "vit", VIT)
    make_run(root / "distilled", KINDS["distilled"])
    return Workbench([root], root / "none", torch.device("cpu"))


@pytest.fixture(scope="module")
def shipped():
    return Workbench([tab.Path("assets/runs")], None, torch.device("cpu"))


@pytest.fixture(scope="module")
def learnt(shipped, digits):
    return learn(shipped, shipped.run(BASE), digits)


# --- collecting ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "has no name"),
        (None, "has no name"),
        ("a\0b", "has no name"),
        ("x" * 41, "40 letters"),
        (" MUG ", "'MUG' already exists"),
    ],
)
def test_invalid_class_names_are_rejected(name, words):
    with pytest.raises(DataError, match=words):
        Collection().with_class("mug").with_class(name)
    assert (
        Collection().with_class("<b>x</b>").classes[0].name == "<b>x</b>"
    )  # not interpreted as HTML


def test_limits_are_told_and_lose_nothing():
    full = filled(*map(str, range(20)), each=0)
    with pytest.raises(DataError, match="limit of 20 classes"):
        full.with_class("one more")
    many = full
    for i in range(500):
        many = many.with_picture(i % 20, Image.new("RGB", (8, 8), (i % 256, i // 256, 7)))
    with pytest.raises(DataError, match="500 images"):
        many.with_picture(0, noise(0), "late.png")
    assert len(many) == 500 and len(full) == 0


def test_files_that_are_no_pictures_are_named_and_the_rest_is_taken(tmp_path):
    paths = [tmp_path / name for name in ("good.png", "bad.png", "again.png")]
    noise(1).save(paths[0])
    paths[1].write_text("no picture")
    noise(1).save(paths[2])
    found, problems = Collection().with_class("a").with_files(0, paths)
    assert len(found) == 1
    assert (
        "bad.png" in problems[0] and "again.png' was skipped: 'a' already contains" in problems[1]
    )


def test_a_picture_is_in_one_class_and_it_or_a_class_is_taken_away():
    found = filled("a", "b")
    with pytest.raises(DataError, match="'a' already contains"):
        found.with_picture(1, noise(0), "x")
    less = found.without(0, 1)
    kept = [picture.key for picture in found.classes[0].pictures]
    assert [picture.key for picture in less.classes[0].pictures] == [kept[0], *kept[2:]]
    assert [each.name for each in found.without(0).classes] == ["b"]
    assert len(found) == 8


# --- zip files -----------------------------------------------------------------------------------


def test_a_zip_of_folders_becomes_classes(tmp_path):
    entries = {f"set/{name}/{i}.png": png(noise(i)) for i, name in enumerate("aabb")}
    entries |= {"__MACOSX/a/._0.png": b"x", "set/a/.DS_Store": b"x", "set/b/notes.txt": b"x"}
    found, problems = Collection().with_class("A").with_zip(zipped(tmp_path / "z.zip", entries))
    assert {each.name: len(each.pictures) for each in found.classes} == {"A": 2, "b": 2}
    assert problems == ["Skipped 1 file without an image suffix: set/b/notes.txt."]


def test_what_systems_leave_in_a_zip_is_ignored_at_any_depth(tmp_path):
    entries = {f"set/{name}/{i}.png": png(noise(i)) for i, name in enumerate("aabb")}
    left = (".ipynb_checkpoints", "__MACOSX", "@eaDir", "$RECYCLE.BIN", "#recycle", ".thumbnails")
    for i, name in enumerate(left):
        for place in (
            f"{name}",
            f"set/{name}",
            f"set/a/{name}",
            f"set/a/{name}/b",
            f"{name}/set/a",
        ):
            entries[f"{place}/x.png"] = png(noise(100 + i))
    entries |= {f"set/a/{name}": b"x" for name in ("._0.png", "Thumbs.db", "~$n.docx", "Icon\r")}
    found, problems = Collection().with_zip(zipped(tmp_path / "z.zip", entries))
    assert {each.name: len(each.pictures) for each in found.classes} == {"a": 2, "b": 2}
    assert problems == []


def test_system_files_do_not_count_towards_the_limit_of_a_zip(tmp_path):
    entries = {f"a/{i}.png": png(noise(i)) for i in range(2)}
    entries |= {f"__MACOSX/a/._{i}.png": b"x" for i in range(1000)}
    found, problems = Collection().with_zip(zipped(tmp_path / "z.zip", entries))
    assert (len(found), problems) == (2, [])


@pytest.mark.parametrize("top", ["", "set/"])
def test_a_text_file_does_not_refuse_a_zip_and_a_class_without_images_is_named(tmp_path, top):
    entries = {f"{top}a/{i}.png": png(noise(i)) for i in range(2)}
    entries |= {f"{top}README.md": b"x", f"{top}LICENSE": b"x", f"{top}b/film.mov": b"x"}
    found, problems = Collection().with_zip(zipped(tmp_path / "z.zip", entries))
    assert [(each.name, len(each.pictures)) for each in found.classes] == [("a", 2)]
    files = f"{top}README.md, {top}LICENSE, {top}b/film.mov"
    assert problems == [
        f"Skipped 3 files without an image suffix: {files}.",
        "The class 'b' has no images.",
    ]


def test_an_image_outside_of_all_folders_is_named_and_the_others_are_taken(tmp_path):
    entries = {"cover.png": png(noise(9)), "a/0.png": png(noise(0))}
    found, problems = Collection().with_zip(zipped(tmp_path / "z.zip", entries))
    assert len(found) == 1
    assert problems == ["Skipped images outside class folders: cover.png."]
    found, problems = Collection().with_zip(zipped(tmp_path / "y.zip", {"README": b"x"}))
    assert len(found) == 0
    assert problems == ["Skipped 1 file without an image suffix: README.", "No image was found."]


def test_every_kind_of_image_is_taken_from_a_zip_and_one_that_is_damaged_is_named(tmp_path):
    kinds = {"0.HEIC": "HEIF", "1.hif": "HEIF", "2.avif": "AVIF", "3.gif": "GIF", "4.jfif": "JPEG"}
    entries = {}
    for i, (name, kind) in enumerate(kinds.items()):
        buffer = io.BytesIO()
        noise(i).save(buffer, kind)
        entries[f"a/{name}"] = buffer.getvalue()
    entries["a/bad.WebP"] = b"no image"
    found, problems = Collection().with_zip(zipped(tmp_path / "z.zip", entries))
    assert len(found) == 5
    assert problems == ["'bad.WebP' in 'a' cannot be read as an image."]


def without_utf8_flag(path, names):
    """Return a zip with the entry `names` as raw bytes, without the flag for their encoding."""
    stand_ins = {f"{i}".encode() * len(name): name for i, name in enumerate(names)}
    entries = {f"set/{mark.decode()}/x.png": png(noise(i)) for i, mark in enumerate(stand_ins)}
    content = zipped(path, entries).read_bytes()
    for mark, name in stand_ins.items():
        assert content.count(b"set/" + mark + b"/x.png") == 2
        content = content.replace(b"set/" + mark + b"/x.png", b"set/" + name + b"/x.png")
    path.write_bytes(content)
    return path


def test_names_of_a_zip_are_utf8_with_or_without_the_flag_and_else_code_page_437(tmp_path):
    names = ["größe", "猫", "café", "plain"]
    raw = [unicodedata.normalize("NFD", name).encode() for name in names]
    path = without_utf8_flag(tmp_path / "finder.zip", [*raw, "Öl".encode("cp437")])
    found, problems = Collection().with_zip(path)
    assert [each.name for each in found.classes] == [*names, "Öl"]
    assert problems == []
    entries = {f"{unicodedata.normalize('NFD', name)}/x.png": png(noise(0)) for name in names[:1]}
    again, problems = found.with_zip(zipped(tmp_path / "flag.zip", entries))
    assert [each.name for each in again.classes] == [*names, "Öl"]  # the same class
    assert problems == ["'x.png' was skipped: 'größe' already contains this image."]


def test_a_class_has_one_name_in_either_unicode_form():
    composed, decomposed = (unicodedata.normalize(form, "größe") for form in ("NFC", "NFD"))
    assert Collection().with_class(decomposed).classes[0].name == composed
    with pytest.raises(DataError, match="'größe' already exists"):
        Collection().with_class(composed).with_class(decomposed)


def test_a_folder_follows_the_rules_of_a_zip(tmp_path):
    def put(name, seed):
        path = tmp_path / f"{seed}" / name
        path.parent.mkdir()
        path.write_bytes(png(noise(seed)) if name.endswith(".png") else b"x")
        return path

    files = [(put("x.png", 0), "set/a"), (put("y.png", 1), "b"), (put("README", 2), "set")]
    files += [(put("z.png", 3), "set/a/.ipynb_checkpoints"), (put("._x.png", 4), "set/a")]
    files += [(put("w.png", 5), "__MACOSX/a"), (put("notes.txt", 6), "set/c")]
    found, problems = Collection().with_folders(files)
    assert {each.name: len(each.pictures) for each in found.classes} == {"a": 1, "b": 1}
    assert problems == [
        "Skipped 2 files without an image suffix: set/README, set/c/notes.txt.",
        "The class 'c' has no images.",
    ]


def test_system_files_among_chosen_files_are_ignored(tmp_path):
    noise(0).save(tmp_path / "x.png")
    for name in ("._x.png", "Thumbs.db"):
        (tmp_path / name).write_bytes(b"x")
    paths = [tmp_path / name for name in ("._x.png", "Thumbs.db", "x.png")]
    found, problems = Collection().with_class("a").with_files(0, paths)
    assert (len(found), problems) == (1, [])


def test_a_folder_named_with_odd_spaces_is_one_class(tmp_path):
    entries = {f" my  cat /{i}.png": png(noise(i)) for i in range(3)}
    found, problems = Collection().with_zip(zipped(tmp_path / "z.zip", entries))
    assert {each.name: len(each.pictures) for each in found.classes} == {"my cat": 3}
    assert problems == []


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_damaged_zip_is_rejected_for_every_compression(tmp_path, method):
    path = tmp_path / "z.zip"
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("a/x.png", png(noise(0)))
    content = bytearray(path.read_bytes())
    start = 30 + len("a/x.png")  # first compressed byte, after the header of the entry
    content[start : start + 16] = b"\xff" * 16
    path.write_bytes(content)
    with pytest.raises(DataError, match="cannot be read"):
        Collection().with_zip(path)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"../../a/x.png": b"x"}, "leads outside"),
        ({"a/..\\x.png": b"x"}, "leads outside"),
        ({"/a/x.png": b"x"}, "leads outside"),
        ({"x.png": b"x"}, "not in a folder"),
        ({f"a/{i}.png": b"" for i in range(1001)}, "too large"),
    ],
)
def test_zips_with_unsafe_paths_or_too_many_files_are_rejected(tmp_path, entries, words):
    with pytest.raises(DataError, match=words):
        Collection().with_zip(zipped(tmp_path / "z.zip", entries))


def test_images_above_the_limit_are_not_decoded(tmp_path, monkeypatch):
    monkeypatch.setattr("vitdemo.own_classes.MOST_PICTURES", 3)
    read, load = [], inputs.load_image
    monkeypatch.setattr(inputs, "load_image", lambda path: read.append(path) or load(path))
    entries = {f"a/{i}.png": png(noise(i)) for i in range(9)}
    found, problems = Collection().with_zip(zipped(tmp_path / "z.zip", entries))
    assert len(found) == len(read) == 3
    assert problems == ["The limit is 3 images. The other images were skipped."]


def test_zip_bombs_and_other_files_are_rejected_before_unpacking(tmp_path, monkeypatch):
    path = zipped(tmp_path / "z.zip", {f"a/{i}.png": bytes(10**6) for i in range(5)})
    assert path.stat().st_size < 10**5
    monkeypatch.setattr("vitdemo.own_classes.MOST_UNPACKED", 4 * 10**6)
    monkeypatch.setattr(zipfile.ZipFile, "open", None)
    with pytest.raises(DataError, match="too large"):
        Collection().with_zip(path)
    path.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(DataError, match="cannot be read"):
        Collection().with_zip(path)


# --- learning ------------------------------------------------------------------------------------


def test_digits_that_no_model_here_was_trained_on_are_learnt(learnt, digits):
    assert learnt.accuracy >= 0.9
    low, high = learnt.interval
    assert 0.8 < low < learnt.accuracy <= high <= 1
    assert learnt.probabilities.shape == (36, 3) and learnt.folds == 5
    np.testing.assert_allclose(learnt.probabilities.sum(1), 1, atol=1e-5)
    assert learnt.classes == ("digit 1", "digit 4", "digit 7")


@pytest.fixture(scope="module")
def lot(shipped):
    """Split ten images randomly into two classes, with twelve near-identical frames each."""
    order = np.random.default_rng(1).permutation(10)
    found = Collection().with_class("a").with_class("b")
    for i, seed in enumerate(order):
        for frame in frames(scene(int(seed)), 12, int(seed)):
            found = found.with_picture(i % 2, frame)
    return learn(shipped, shipped.run("vit-scratch"), found)


def test_frames_of_one_burst_are_not_tested_on_each_other(lot):
    assert len(lot.labels) == 120 and lot.group_count == 10 and lot.folds == 5
    assert lot.effective_size == pytest.approx(10)
    assert lot.accuracy < 0.9  # the classes mean nothing: single images would give 100%
    low, high = lot.interval
    assert low < 0.6 and high - low > 0.35
    (notice,) = [piece for piece in tab.pieces(lot) if isinstance(piece, Notice)]
    assert "The 120 images form only 10 groups of near-identical images" in notice.text


def test_a_warning_of_near_identical_images_stays_where_all_predictions_are_correct(lot):
    flawless = replace(lot, probabilities=np.eye(2)[lot.labels])
    assert flawless.accuracy == 1
    assert flawless.interval == pytest.approx((0.722, 1), abs=1e-3)  # of 10 images, not of 120
    assert any(isinstance(piece, Notice) for piece in tab.pieces(flawless))


def test_a_class_of_a_single_burst_is_learnt_but_not_tested(shipped, tmp_path):
    found = Collection()
    for name, seed in (("mug", 1), ("cup", 2)):
        found = found.with_class(name)
        for frame in frames(scene(seed), 8, seed):
            found = found.with_picture(len(found.classes) - 1, frame)
    mine = learn(shipped, shipped.run("vit-scratch"), found)
    assert not mine.is_tested and mine.folds == 0
    words = tab.pieces(mine)[0].text
    assert "accuracy was not measured" in words and "within the classes 'mug', 'cup', so" in words
    run = write(shipped, mine, tmp_path / "own")
    assert run.has_weights and not run.has_evaluation
    opened = Workbench([tmp_path], None, torch.device("cpu"))
    assert opened.accuracy(opened.run("own")) is None
    square = found.classes[1].pictures[0].square
    assert opened.answer(opened.run("own"), square).probabilities.argmax() == 1


def test_labels_without_sense_are_not_learnt(workbench):
    found = filled("a", "b", each=20)
    assert 0.2 < learn(workbench, workbench.run("vit"), found).accuracy < 0.8


@pytest.mark.parametrize("count", [2, 3])
def test_the_run_answers_as_its_regression(shipped, workbench, digits, learnt, tmp_path, count):
    bench, found = shipped, learnt
    if count == 2:  # a regression of one row
        bench = workbench
        found = learn(bench, bench.run("vit"), Collection(digits.classes[:2]))
    run = write(bench, found, tmp_path / "own")
    assert run.classes == found.classes and run.has_weights and run.has_evaluation
    opened = Workbench([tmp_path], None, torch.device("cpu"))
    own, squares = opened.run("own"), [picture.square for picture in found.pictures][::2]
    answers = [opened.answer(own, square).probabilities.argmax() for square in squares]
    assert np.mean(np.array(answers) == found.labels[::2]) >= 0.94  # those it was fitted on
    layer = runs.load_model(run, torch.device("cpu")).head
    np.testing.assert_allclose(layer.weight.detach(), found.weight, atol=2e-3, rtol=2e-3)
    assert opened.look(own, squares[0]).layers == bench.look(found.base, squares[0]).layers
    np.testing.assert_allclose(run.evaluation.probabilities, found.probabilities, rtol=2**-15)


def test_too_little_to_learn_from_is_said(workbench):
    with pytest.raises(DataError, match="too few classes"):
        check(filled("a"))
    one = filled("a").with_class("b").with_picture(1, noise(7))
    with pytest.raises(DataError, match="'b' has too few images"):
        learn(workbench, workbench.run("vit"), one)
    with pytest.raises(RunError, match="cannot be used as a backbone"):
        learn(workbench, workbench.run("distilled"), filled("a", "b"))


def test_learning_can_be_stopped_and_says_how_far_it_is(workbench):
    shares, found = [], filled("a", "b")
    learn(workbench, workbench.run("vit"), found, report=lambda share, _: shares.append(share))
    assert shares == sorted(shares) and shares[0] >= 0 and shares[-1] < 1

    def stop(share, words):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn(workbench, workbench.run("vit"), found, report=stop)


# --- the tab -------------------------------------------------------------------------------------


def test_what_a_browser_asks_is_followed_and_taken_back(workbench):
    def ask(kept, **data):
        assert tab.follow(workbench, kept, SimpleNamespace(_data=data)) == []
        return kept, [each.name for each in kept.collection.classes]

    kept, names = ask(tab.Kept(), what="class", name="mug")
    assert names == ["mug"]
    kept, names = ask(kept, what="remove", name="mug")
    assert names == [] and kept.collection == Collection()
    kept, names = ask(kept, what="undo")
    assert names == ["mug"]
    ask(kept, what="class", name="cup")
    ask(kept, what="remove", name="mug")
    with pytest.raises(DataError, match="already removed"):  # not into the cups
        ask(kept, what="pictures", name="mug", paths=[])
    ask(kept, what="undo")
    ask(kept, what="remove", name="cup")
    kept.before = None
    with pytest.raises(DataError, match="no step to undo"):
        ask(kept, what="undo")


def test_what_is_done_meanwhile_is_not_lost(workbench, monkeypatch, tmp_path):
    """In one session, add a class while other classes are added and a classifier is trained."""
    learnt = learn(workbench, workbench.run("vit"), filled("a", "b"))
    monkeypatch.setattr(workbench, "_visitor", lambda: "me")
    monkeypatch.setattr(tab, "check_who", lambda *_: None)
    monkeypatch.setattr(Stops, "watch", lambda *_: lambda: None)

    def shown():
        return sorted(path.name for path in tmp_path.glob("own-*"))

    jobs = Jobs(tmp_path, None, "cpu")

    async def visit():
        with Page() as page, gr.Tab("Custom classes") as own:
            tab.build(own, workbench, jobs)
        handlers = {fn.name: fn for fn in page.fns.values()}
        state, request = SessionState(page), SimpleNamespace(session_hash="me")
        going, loop = asyncio.Event(), asyncio.get_running_loop()

        async def do(handler, /, *inputs, **data):
            asked, event = (handlers[handler], [*inputs], state), gr.EventData(None, data)
            return await page.process_api(*asked, request=request, event_data=event)

        def told(answer):
            return str(answer["data"][1])

        def slow(work):
            def waits(*arguments, **options):
                loop.call_soon_threadsafe(going.set)
                time.sleep(0.3)
                return work(*arguments)

            return waits

        def names():
            (found,) = (state[block] for block in page.blocks if isinstance(state[block], tab.Kept))
            return [each.name for each in found.collection.classes]

        monkeypatch.setattr(tab, "from_tests", slow(lambda _, now: now.with_class("a")))
        monkeypatch.setattr(tab, "learn", slow(lambda *_: learnt))
        adding = asyncio.create_task(do("ask", None, what="tests"))
        await going.wait()
        await do("ask", None, what="class", name="mug")
        await adding
        assert names() == ["a", "mug"]
        going.clear()
        learning = asyncio.create_task(do("train_them", None, "vit"))
        await going.wait()
        await do("ask", None, what="class", name="cup")
        await learning
        assert names() == ["a", "mug", "cup"]
        for number in (1, 2):  # a second one takes the place of the first
            await do("share", None)
            assert shown() == [f"own-a-b-{number}"]
        await do("take_back", None)
        assert shown() == []
        await do("share", None)
        jobs.discard(
            "own-a-b-1"
        )  # as in "Train a model"; another user publishes a model of that name
        jobs.keep("own-a-b", lambda folder: None)
        assert "It replaces" not in told(await do("share", None))
        assert shown() == ["own-a-b-1", "own-a-b-2"]
        jobs.limits = replace(jobs.limits, kept=2)
        assert "It replaces" in told(await do("share", None))
        assert shown() == ["own-a-b-1", "own-a-b-3"]
        jobs.discard("own-a-b-3")
        jobs.keep("own-a-b", lambda folder: None)
        assert "was already deleted in Training progress" in told(await do("take_back", None))
        assert "have not published a model" in told(await do("take_back", None))
        assert shown() == ["own-a-b-1", "own-a-b-2"]

    with ThreadPoolExecutor(1) as thread:  # this one may have a loop, of tests in a browser
        thread.submit(asyncio.run, visit()).result()


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
        None,
    ],
)
def test_what_no_button_sends_is_refused(data, tmp_path, monkeypatch):
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    with pytest.raises(DataError):
        wish(SimpleNamespace(_data=data), Collection().with_class("a"))


def test_figures_say_how_little_they_say(learnt):
    words = [piece.text for piece in tab.pieces(learnt) if hasattr(piece, "text")]
    assert re.search(r"\*\*\d+\.\d%\*\* on 36 images", words[0]) and "5-fold" in words[0]
    assert "There are only" in words[1] or "groups of near-identical" in words[1]
    (table,) = [p for p in tab.pieces(learnt) if getattr(p, "file", "") == "own-confusion"]
    assert sum(int(cell.text) for row in table.rows for cell in row[1:]) == 36


def test_a_folders_name_holds_nothing_of_a_stranger(learnt):
    odd = SimpleNamespace(classes=("../x", "<b>", "ÄÖ", "four"))
    assert tab.run_name(odd) == "own-x-b"
    assert tab.run_name(SimpleNamespace(classes=("猫", "犬"))) == "own-classes"
    assert tab.run_name(learnt) == "own-digit1-digit4-digit7"


def test_the_component_sends_counts_and_sheets(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    value = OwnClasses().drawn(tab.Drawn(filled("a").with_class("b"), "x", ("y",)))
    assert [(each["name"], each["count"]) for each in value["classes"]] == [("a", 4), ("b", 0)]
    with Image.open(value["classes"][0]["sheet"].path) as sheet:
        assert sheet.size == (4 * 56, 56)
    assert value["classes"][1]["sheet"] is None and value["problems"] == ["y"]
    assert set(value["accept"].split(",")) == {"image/*", *inputs.image_suffixes()}
    assert {"__macosx", "thumbs.db", "@eadir"} <= set(value["system"])


# --- all of the model ----------------------------------------------------------------------------


def test_pictures_are_laid_down_as_a_data_set_whatever_their_classes_are_called(tmp_path):
    names = ("../up", "a/b", "A_b 4", "a_b", "...", "mug & cup")
    tested = np.tile(np.arange(12) < 3, len(names))
    lay_down(filled(*names, each=12), tested, tmp_path / "pictures")
    found = sorted(path.name for path in (tmp_path / "pictures" / "train").iterdir())
    assert found == ["A_b 4", "_up", "a_b", "a_b 4 4", "class 5", "mug _ cup"]
    for part, count in (("train", 9), ("test", 3)):
        source = data.open_source(tmp_path / "pictures")
        assert source.labels(part).bincount().tolist() == [count] * 6
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pictures"]


def test_a_class_named_like_a_system_file_is_laid_down_under_another_name(tmp_path):
    tested = np.arange(36) % 4 == 3
    lay_down(filled("Thumbs.db", "__MACOSX", "cup", each=12), tested, tmp_path / "pictures")
    assert data.open_source(tmp_path / "pictures").classes == ("class 1", "class 2", "cup")


def test_a_whole_model_is_tested_on_other_bursts_than_it_is_trained_on(shipped):
    base, found = shipped.run("vit-scratch"), Collection()
    for i, name in enumerate("ab"):
        found = found.with_class(name)
        for seed in range(4):
            for frame in frames(scene(10 * i + seed), 3, seed):
                found = found.with_picture(i, frame)
    tested = choose_test_images(shipped, base, found).reshape(8, 3)
    assert (tested == tested[:, :1]).all()  # whole bursts
    assert tested[:4].any(axis=1).sum() == tested[4:].any(axis=1).sum() == 1  # a quarter
    burst = Collection().with_class("mug").with_class("cup")
    for frame in frames(scene(1), 10):
        burst = burst.with_picture(0, frame)
    for seed in range(10):
        burst = burst.with_picture(1, scene(20 + seed))
    with pytest.raises(DataError, match="All images of 'mug' are near-identical"):
        choose_test_images(shipped, base, burst)


def test_too_few_for_all_of_a_model_is_said(workbench):
    with pytest.raises(DataError, match="'one' has too few images"):
        choose_test_images(workbench, workbench.run("vit"), filled("one", "two", each=9))
