"""The tab Custom classes: edits of a session, its classifier and its fine-tuned model."""

import asyncio
import base64
import io
import re
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import gradio as gr
import numpy as np
import pytest
import torch
from gradio.state_holder import SessionState
from PIL import Image

from tests.support.factories import VIT, make_context, make_run, noise
from tests.support.loops import call_in_loop, run_coroutine
from tests.test_custom_classes import make_collection
from vitdemo import runs
from vitdemo.analyses.class_attribution import choose_first_map, compute_class_attribution
from vitdemo.context import AppContext
from vitdemo.custom_classes import (
    ImageCollection,
    build_probe_model,
    fit_linear_probe,
)
from vitdemo.data import image_files
from vitdemo.errors import DataError, ImageError, JobError, RunError, Stopped
from vitdemo.jobs import JobQueue, state
from vitdemo.page import bridge, custom_classes
from vitdemo.page.custom_classes import classifier, editor, fine_tuning, models, results, trial
from vitdemo.page.custom_classes.session import CustomClassesSession
from vitdemo.page.feature import PageSetup
from vitdemo.page.gradio_patches import AppBlocks
from vitdemo.page.kit import SESSION_QUEUES
from vitdemo.page.state_keys import AUDIENCE, BACKBONE, FOR_EVERYONE, OWN_MAP
from vitdemo.runs import CUSTOM_CLASSES_RECIPE
from vitdemo.training.recipes import get_recipe

STATE = {"model": "vit", "image": None, BACKBONE.name: "vit"}
TRIAL_STATE = bridge.parse_view_state(STATE)


@pytest.fixture(scope="module", autouse=True)
def _few_regularisations():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vitdemo.custom_classes.INVERSE_REGULARISATIONS", [0.01, 1])
        yield


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    make_run(root / "vit", VIT)
    return make_context(root)


@pytest.fixture(scope="module")
def probe(context):
    """Classifier of 36 images of noise, so that many predictions are wrong."""
    collection = make_collection("a", "b", each=18)
    return fit_linear_probe(context, context.find_run("vit"), collection)


@pytest.fixture
def owned(context, monkeypatch):
    """`context` for the session "me"."""
    monkeypatch.setattr(context.sessions, "get_id", lambda: "me")
    return context


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    """Queue of jobs that everybody may use, without starting any process."""
    monkeypatch.setattr(JobQueue, "_start_next", lambda *_: None)
    return JobQueue(tmp_path / "runs", None, "cpu", for_all=True)


def ask(context, session, jobs=None, **options):
    """Return the payload of the models, without controls."""
    state = bridge.parse_view_state(STATE | options)
    return models.payload(lambda: session, jobs, context, state).data


def train(context, session, report=lambda *_: None):
    classifier.train(context, bridge.parse_view_state(STATE), report, session)


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
        act(context, session, what="remove", name="mug", image=0)
    act(context, session, what="undo")
    act(context, session, what="remove", name="cup")
    session.previous_collection = None
    with pytest.raises(DataError, match="no step to undo"):
        act(context, session, what="undo")


def test_concurrent_actions_of_a_session_are_not_lost(owned, cache, monkeypatch):
    """Add a class while the same session adds other classes and trains a classifier."""
    probe = fit_linear_probe(owned, owned.find_run("vit"), make_collection("a", "b"))

    async def use_page():
        with AppBlocks(serial_queues=SESSION_QUEUES) as page:
            setup = PageSetup(page, owned)
            bridge.build(setup, [custom_classes.build(setup)])
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

    run_coroutine(use_page())


def test_data_of_a_user_need_a_session(owned):
    def build():
        with AppBlocks() as page:
            return custom_classes.build(PageSetup(page, owned)).payloads

    for payload in call_in_loop(build).values():
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
    session = CustomClassesSession()

    def offered(jobs=jobs):
        data = ask(owned, session, jobs)
        return {name[4:] for name, value in data.items() if value is True and name[:4] == "can_"}

    assert offered() == set()
    session.collection = make_collection("a", "b", each=10)
    assert offered() == {"fine_tune", "save_images"}
    assert offered(jobs=None) == offered(JobQueue(jobs.root, for_all=False)) == {"save_images"}
    session.collection = make_collection("a", "b", each=9)
    assert offered() == {"save_images"}
    train(owned, session)
    always = {"save", "save_images"}
    assert offered() == always | {"publish"} and offered(jobs=None) == always
    classifier.publish(owned, session, jobs)
    assert offered() == always | {"unpublish"}
    train(owned, session)  # another model than the published one
    assert offered() == always | {"publish", "unpublish"}


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


@pytest.mark.parametrize(
    "data",
    [
        {"what": "format c:"},
        {"what": "class", "name": 3},
        {"what": "add", "name": "a"},
        {"what": "add", "name": True, "paths": []},
        {"what": "add", "name": "a", "paths": ["/etc/passwd"], "folders": [""]},
        {"what": "add", "name": "a", "paths": [7], "folders": [""]},
        {"what": "add", "name": "a", "paths": ["x"] * 501},
        {"what": "remove", "name": "a", "image": 0},
        {"what": "remove"},
        {"what": "add", "paths": ["../z.zip"], "folders": [""]},
        {"what": "add", "paths": [], "folders": ["a"]},
        {"what": "add", "paths": [], "folders": [3]},
        {},
    ],
)
def test_invalid_browser_actions_are_rejected(data, cache):
    session = CustomClassesSession(ImageCollection().with_class("a"))
    with pytest.raises(DataError):
        editor.edit(None, session, data)


def test_files_folders_and_zips_are_added_by_one_action(cache):
    archive, loose, placed = (str(cache / name) for name in ("upload", "loose.png", "placed.png"))
    with zipfile.ZipFile(archive, "w") as file:  # recognised by its content
        file.writestr("bee/1.png", make_png(1))
    Path(loose).write_bytes(make_png(2))
    Path(placed).write_bytes(make_png(3))
    session = CustomClassesSession()
    add = {"what": "add", "paths": [archive, loose, placed], "folders": ["", "", "pets/ant"]}
    with pytest.raises(DataError, match="These images have no class"):
        act(None, session, **add)
    assert session.collection == ImageCollection()  # all or nothing
    assert act(None, session, **add, name="Cup") == ["bee", "ant", "Cup"]
    assert [len(each.images) for each in session.collection.classes] == [1, 1, 1]
    Path(loose).write_bytes(make_png(4))
    add = {"what": "add", "paths": [loose], "folders": [""], "name": " cup "}
    assert act(None, session, **add) == ["bee", "ant", "Cup"]  # the same class
    assert len(session.collection.classes[2].images) == 2
    broken = cache / "broken.zip"
    broken.write_bytes(b"none")
    with pytest.raises(DataError, match="zip file cannot be read"):
        act(None, session, what="add", paths=[str(broken)], folders=[""])


def make_png(seed: int) -> bytes:
    buffer = io.BytesIO()
    noise(seed).save(buffer, "PNG")
    return buffer.getvalue()


def test_results_state_the_sample_size_and_its_limits(probe, tmp_path):
    session = CustomClassesSession(probe.collection)
    assert results.payload(session) == {}
    session.probe, session.probe_folder = probe, tmp_path / "own"
    found = results.payload(session)
    assert re.fullmatch(r"\d+\.\d%", found["accuracy"])
    assert found["sample"].startswith("accuracy on 36 images, 95% confidence interval")
    assert "There are only 36 images, so the interval is" in found["warning"]
    assert "(5 folds)" in found["about"][0]
    matrix = np.array(found["matrix"])
    assert matrix.sum() == 36 and found["classes"] == probe.classes
    assert found["error_count"] == 36 - np.trace(matrix) == len(found["errors"]) > 0
    for each in found["errors"]:
        assert matrix[each["true"], each["predicted"]] and each["true"] != each["predicted"]
    height, width, _ = found["sheet"].pixels.shape
    assert width == height * len(found["errors"])
    assert [row[0] for row in found["metrics"]] == [*probe.classes]


def test_results_of_deleted_classes_are_not_shown(owned, probe, tmp_path):
    session = CustomClassesSession(probe.collection)
    session.probe, session.probe_folder = probe, tmp_path / "own"
    photo = {"photo": make_photo(probe.images[0].square)}
    trial.predict(owned, TRIAL_STATE, session, photo)
    assert "custom_classes_result" in editor.edit(owned, session, {"what": "remove", "name": "a"})
    deleted = results.payload(session)
    assert deleted.keys() == {"told"} and deleted["told"].startswith("Classes of 'own' have been")
    assert trial.payload(session)["shares"] == []
    assert "custom_classes_result" in editor.edit(owned, session, {"what": "undo"})
    assert results.payload(session)["accuracy"] and trial.payload(session)["shares"]
    added = editor.edit(owned, session, {"what": "class", "name": "new"})
    assert "custom_classes_result" not in added and results.payload(session)["accuracy"]


def test_near_identical_images_are_reported_even_at_full_accuracy(probe):
    bursts = replace(probe, probabilities=np.eye(2)[probe.labels], groups=np.arange(36) // 3)
    warning = results.describe_test(bursts)["warning"]
    assert "The 36 images form only 12 groups of near-identical images" in warning
    untested = replace(probe, probabilities=None, groups=probe.labels)
    text = results.describe_test(untested)["untested"]
    assert "accuracy was not measured" in text and "within the classes 'a', 'b', so" in text


def make_photo(image: Image.Image) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=95)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def test_classifier_is_tried_on_photos_and_files(owned, cache):
    session = CustomClassesSession(make_collection("a", "b"))
    image = session.collection.classes[1].images[0].square.resize((64, 64))
    with pytest.raises(DataError, match="No classifier has been trained yet"):
        trial.predict(owned, TRIAL_STATE, session, {"photo": make_photo(image)})
    nothing = {"model": "", "is_current": False, "shares": [], "map": None}
    assert trial.payload(session) == nothing
    train(owned, session)
    image.save(cache / "image.png")
    for fields in ({"photo": make_photo(image)}, {"path": str(cache / "image.png")}):
        assert trial.predict(owned, TRIAL_STATE, session, fields) == ["custom_classes_trial"]
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


def test_maps_of_the_trial_are_those_of_the_written_model(owned, cache):
    """The attention comes from the backbone, and the class map from the user's classifier."""
    session = CustomClassesSession(make_collection("a", "b"))
    train(owned, session)
    base = session.probe.base
    image = session.collection.classes[1].images[0].square.resize((64, 64))
    image.save(cache / "image.png")
    fields = {"path": str(cache / "image.png")}
    trial.predict(owned, TRIAL_STATE, session, fields)
    found, source = trial.payload(session)["map"], session.prediction.source
    square = image_files.crop_visible_square(image)
    expected = owned.trace_image(base, square).plain_map(*choose_first_map(owned, base))
    np.testing.assert_allclose(found["values"], expected, atol=1e-5)
    assert source == "rollout" and "rollout of the class token" in found["caption"]
    assert "is the same for every class" in found["caption"]
    state = bridge.parse_view_state(STATE | {OWN_MAP.name: "class"})
    trial.predict(owned, state, session, fields)
    found = trial.payload(session)
    (run,) = [run for run in owned.list_runs()[0] if run.path == session.probe_folder]
    maps = {each.method.name: each for each in compute_class_attribution(owned, run, square).maps}
    expected = maps["attnlrp"].values
    # The written weights are float16, and values of both signs can be close to 0.
    np.testing.assert_allclose(
        found["map"]["values"], expected, rtol=0.02, atol=0.02 * np.abs(expected).max()
    )
    assert found["map"]["signed"]
    assert found["map"]["caption"].startswith(f"AttnLRP for {found['shares'][0][0]}, from your")
    train(owned, session)
    assert trial.payload(session)["map"] is None


def test_the_model_of_a_classifier_shares_the_weights_of_its_backbone(context, probe):
    base, model = context.load_model(probe.base), build_probe_model(context, probe)
    assert model.blocks is base.blocks and model.head is not base.head
    assert (model.num_classes, base.num_classes) == (2, 10)


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


@pytest.mark.parametrize(
    ("classes", "name"),
    [
        (("../x", "<b>", "ÄÖ", "four"), "own-x-b"),
        (("猫", "犬"), "own-classes"),
        (("digit 1", "digit 4", "digit 7"), "own-digit1-digit4-digit7"),
    ],
)
def test_run_name_contains_only_safe_characters(classes, name):
    assert classifier.make_run_name(SimpleNamespace(classes=classes)) == name


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


@pytest.fixture
def tuning(jobs, tmp_path):
    """Context with a DeiT-Tiny, and a session with enough images to fine-tune it."""
    make_run(tmp_path / "runs" / "deit", get_recipe(CUSTOM_CLASSES_RECIPE).model)
    make_run(tmp_path / "runs" / "vit", VIT)
    context = AppContext([jobs.root], None, torch.device("cpu"), get_session_id=lambda: "me")
    return context, CustomClassesSession(make_collection("a", "b", each=10))


def fine_tune(context, session, jobs, **options):
    state = bridge.parse_view_state(STATE | {BACKBONE.name: "deit"} | options)
    fine_tuning.fine_tune(context, state, lambda *_: None, session, jobs)


def list_images(folder):
    return [path.name for path in folder.rglob("*.png")]


@pytest.mark.parametrize("options", [{}, {AUDIENCE.name: 1}])
def test_fine_tuning_is_private_by_default(tuning, jobs, options):
    context, session = tuning
    fine_tune(context, session, jobs, **options)
    assert jobs.list_jobs() == [] and list_images(jobs.root) == []
    assert len(list_images(context.sessions.make_folder())) == 20
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
    assert list_images(context.sessions.make_folder()) == []


def test_public_fine_tuning_needs_the_choice_of_all_users(tuning, jobs):
    context, session = tuning
    fine_tune(context, session, jobs, **{AUDIENCE.name: FOR_EVERYONE})
    assert [job.name for job in jobs.list_jobs()] == ["own-classes-1"]
    assert len(list_images(jobs.root / "own-classes-1")) == 20
    assert "All users of this page see this training run" in session.notice
    assert session.tuned_folder is None


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
    monkeypatch.setattr(context.sessions, "get_id", lambda: "somebody else")
    assert "own-classes-1" not in [run.name for run in context.list_runs()[0]]
    session.delete_all(jobs)  # when the session ends
    assert not folder.exists()


def test_private_and_other_backbones_are_not_fine_tuned(tuning, jobs):
    context, session = tuning
    make_run(context.sessions.make_folder() / "mine", get_recipe(CUSTOM_CLASSES_RECIPE).model)
    for name in ("vit", "mine"):
        refusal = ask(context, session, jobs, **{BACKBONE.name: name})["refusal"]
        assert refusal.endswith(f"Choose such a backbone instead of '{name}'.")
        with pytest.raises(JobError, match="Choose such a backbone"):
            fine_tune(context, session, jobs, **{BACKBONE.name: name})
    assert ask(context, session, jobs, **{BACKBONE.name: "deit"})["refusal"] == ""


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
