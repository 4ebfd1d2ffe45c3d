"""Answers of the bridge to requests of the browser, which are untrusted."""

import json
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.page.components.test_matrix_file import unpack_matrices
from tests.support.factories import make_context, make_run
from vitdemo import page, runs
from vitdemo.errors import RunError
from vitdemo.page import bridge, image_sources
from vitdemo.page.bridge import (
    UNEXPECTED_ERROR_MESSAGE,
    Bridge,
    ImageFile,
    NumbersFile,
    Responder,
    TaskRunner,
    answer_request,
    load_prepared_image,
    load_square,
    run_action,
)
from vitdemo.page.explore.inside import layer_by_layer
from vitdemo.page.feature import Feature, merge_features
from vitdemo.page.image_sources import ImageRequest
from vitdemo.page.state_keys import HEAD, IMAGE, MODEL
from vitdemo.page.view_state import needs

STATE = {"image": {"source": "photo:cat", "path": None, "at": 0.5}, "model": "vit"}
PAYLOADS = {
    "layer_by_layer": layer_by_layer.payload,
    "echo": needs(MODEL)(lambda context, state: {"run": state.model}),
}


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    """AppContext of one run without a dataset."""
    root = tmp_path_factory.mktemp("bridge")
    make_run(root / "vit")
    return make_context(root)


def ask(context, views: dict, state=STATE) -> dict:
    return answer_request(context, PAYLOADS, {"id": 7, "state": state, "views": views})


def test_each_requested_view_is_answered_under_its_key(context):
    answer = ask(context, {"echo": "a key", "layer_by_layer": "another key", "unknown": "key"})
    assert answer["id"] == 7
    assert answer["views"].keys() == {"echo", "layer_by_layer"}
    assert answer["views"]["echo"] == {"key": "a key", "data": {"run": "vit"}}
    assert answer["views"]["layer_by_layer"]["key"] == "another key"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "nowhere"}, "There is no run 'nowhere'"),
        ({"model": None}, "contains no model"),
        ({"model": 5}, "contains no model"),
        ({"model": "x" * 301}, "contains no model"),
        ({"image": {"source": "photo:unicorn"}}, "This photo does not exist"),
        ({"image": {"source": "own", "path": "/etc/passwd"}}, "no longer available"),
        ({"image": None}, "No image is chosen"),
    ],
)
def test_invalid_state_is_answered_with_a_message(context, changes, message):
    views = ask(context, {"layer_by_layer": "k"}, STATE | changes)["views"]
    assert views["layer_by_layer"].keys() == {"key", "error"}
    assert message in views["layer_by_layer"]["error"]


@pytest.mark.parametrize("request_data", [{}, {"views": ["echo"]}, {"views": {"echo": 1}}])
def test_malformed_requests_raise_no_exception(context, request_data):
    answer = answer_request(context, PAYLOADS, request_data)
    assert all("error" in view for view in answer["views"].values())


def test_stamp_of_the_models_is_older_than_the_data(tmp_path):
    """Otherwise the browser would not request the data again, which lack the new run."""
    make_run(tmp_path / "vit")
    context = make_context(tmp_path)

    @needs()
    def list_then_add(context, state):
        names = [run.name for run in context.evaluated_runs()]
        make_run(tmp_path / "later")
        return names

    request = {"state": STATE, "views": {"list": "key"}}
    answer = answer_request(context, {"list": list_then_add}, request)
    assert answer["views"]["list"]["data"] == ["vit"]
    assert answer["models"]["groups"] == [("Models", ["vit"])]


def test_models_of_an_answer_name_what_is_missing(tmp_path):
    def read_missing() -> list[str]:
        return answer_request(make_context(tmp_path), {}, {"state": STATE})["models"]["missing"]

    assert read_missing() == ["weights", "runs"]
    run = make_run(tmp_path / "vit")
    assert read_missing() == []
    (run.path / runs.WEIGHTS_FILE).unlink()
    assert read_missing() == ["weights"]


def test_a_request_reads_the_run_folders_once(tmp_path, monkeypatch):
    for name in ("vit", "other"):
        make_run(tmp_path / name)
    context, listings, find_runs = make_context(tmp_path), [], runs.find_runs

    def find_and_count(*arguments, **options):
        listings.append(arguments)
        return find_runs(*arguments, **options)

    monkeypatch.setattr(runs, "find_runs", find_and_count)
    request = {"state": STATE, "views": dict.fromkeys(page.FEATURE.payloads, "key")}
    answer = answer_request(context, page.FEATURE.payloads, request)
    assert answer["models"]["groups"] == [("Models", ["other", "vit"])]
    assert answer["views"].keys() == page.FEATURE.payloads.keys()
    assert len(listings) == 1
    make_run(tmp_path / "later")
    assert len(context.list_runs()[0]) == 3  # the next request reads the folders again
    with context.list_once():
        context.list_runs()[0].clear()  # callers may change the result
        assert len(context.list_runs()[0]) == 3


def test_image_file_is_decoded_once_for_preview_and_models(context, monkeypatch):
    decoded = []
    load = image_sources.load_image
    monkeypatch.setattr(
        image_sources, "load_image", lambda file: decoded.append(file) or load(file)
    )
    request = ImageRequest("photo:cat", crop_position=0.25)  # not in the cache yet
    square = load_square(context, request)
    assert load_prepared_image(context, request).square is square
    assert len(decoded) == 1
    assert load_square(context, ImageRequest("photo:bus")) is not load_square(context, request)


def test_images_and_matrices_of_a_payload_become_files(cache):
    similarity = np.random.default_rng(0).uniform(-1, 1, (150, 150)).astype(np.float32)
    exact = np.random.default_rng(0).normal(size=(3, 2, 50, 40)).astype(np.float32)
    data = {
        "seen": ImageFile(np.zeros((150, 150, 3), np.uint8)),
        "similarity": NumbersFile(similarity),
        "exact": NumbersFile(exact, exact=True),
    }
    value = Bridge().serialise({"views": {"a": {"data": data}}})
    files = {name: {"file#": i} for i, name in enumerate(data)}
    assert json.loads(value["text"]) == {"views": {"a": {"data": files}}}
    image, *numbers = (Path(file["path"]) for file in value["files"])
    assert image.suffix == ".png"
    matrices = [unpack_matrices(file.read_bytes()) for file in numbers]
    np.testing.assert_allclose(matrices[0], similarity[None, None], atol=1e-3)
    np.testing.assert_array_equal(matrices[1], exact)
    small = Bridge().serialise(ImageFile(np.zeros((150, 150, 3), np.uint8), exact=False))
    assert small["files"][0]["path"].endswith(".jpg")


def test_outdated_request_computes_no_further_payload(context):
    responder = Responder(context, Feature())
    computed = []

    @needs()
    def compute_and_cancel(context, state):
        computed.append(state)
        responder.runner.cancel(7)
        return {}

    responder.payloads = {"a": compute_and_cancel, "b": compute_and_cancel}
    request = {"id": 7, "state": STATE, "views": {"a": "key", "b": "key"}}
    assert responder.answer(request)["views"].keys() == {"a"}
    assert len(computed) == 1


def test_download_is_answered_with_its_file(context):
    def write(context, state, folder):
        if state.model != "vit":
            raise RunError("This run is gone.")
        path = folder / "maps.txt"
        path.write_text(state.model)
        return path

    responder = Responder(context, Feature(downloads={"maps": write}))
    answer = responder.save({"id": 7, "download": "maps", "state": STATE})
    assert answer.pop("file").make_content() == b"vit"
    assert answer == {"id": 7, "name": "maps.txt", "error": None}
    failed = responder.save({"id": 8, "download": "maps", "state": STATE | {"model": "gone"}})
    assert failed == {"id": 8, "name": "", "file": None, "error": "This run is gone."}
    unknown = responder.save({"id": 9, "download": "none", "state": STATE})
    assert unknown["error"] == UNEXPECTED_ERROR_MESSAGE


def test_task_reports_its_newest_progress_and_returns_its_result(context):
    counted, received = threading.Event(), threading.Event()

    def count(context, state, report):
        for done in (1, 2, 3):
            report(done, 3, "Counting")
        counted.set()
        assert received.wait(10)
        return [state.model]

    messages = TaskRunner(context, {"count": count}).run({"id": 3, "task": "count", "state": STATE})
    first = next(messages)
    assert counted.wait(10)
    newest = first if first["done"] == 3 else next(messages)
    assert newest == {"id": 3, "done": 3, "total": 3, "text": "Counting"}
    received.set()
    assert [*messages] == [{"id": 3, "end": True, "data": ["vit"], "error": None}]


@pytest.mark.parametrize("stop", ["cancel", "leave"])
def test_task_ends_at_its_next_report_after_a_cancellation(context, stop):
    ended = threading.Event()

    def work_forever(context, state, report):
        try:
            while True:
                report(1, 2, "Working")
        finally:
            ended.set()

    runner = TaskRunner(context, {"work": work_forever})
    messages = runner.run({"id": 4, "task": "work", "state": STATE})
    next(messages)
    if stop == "leave":
        messages.close()
    else:
        runner.cancel(4)
        assert [*messages][-1] == {"id": 4, "end": True, "data": None, "error": None}
    assert ended.wait(10)


def test_task_is_cancelled_by_its_session_only(context, monkeypatch):
    session = ["anna"]
    monkeypatch.setattr(bridge, "session_id", lambda: session[0])
    released = threading.Event()

    def work(context, state, report):
        released.wait(10)
        report(1, 1, "Working")
        return "done"

    runner = TaskRunner(context, {"work": work})
    messages = runner.run({"id": 4, "task": "work", "state": STATE})
    next(messages)
    session[0] = "ben"
    runner.cancel(4)
    released.set()
    assert [*messages][-1]["data"] == "done"


def test_action_is_answered_with_the_views_that_it_changed(context):
    added = []

    def add(context, state, fields):
        added.append(fields["name"])
        return ["names"]

    payloads = {"names": needs(MODEL)(lambda context, state: [*added, state.model]), **PAYLOADS}

    def act(action, **fields):
        request = {"id": 7, "action": action, "fields": fields, "state": STATE}
        return run_action(context, payloads, {"add": add}, request)

    assert act("add", name="mug") == {
        "id": 7,
        "views": {"names": {"data": ["mug", "vit"]}},
        "error": None,
    }
    assert act("unknown") == {"id": 7, "views": {}, "error": None}


@pytest.mark.parametrize(
    ("error", "message"),
    [(RunError("This run is gone."), "This run is gone."), (KeyError(), UNEXPECTED_ERROR_MESSAGE)],
)
def test_action_that_fails_changes_no_view(context, error, message):
    def fail(context, state, fields):
        raise error

    request = {"id": 7, "action": "fail", "fields": "none", "state": STATE}
    answer = run_action(context, PAYLOADS, {"fail": fail}, request)
    assert answer == {"id": 7, "views": {}, "error": message}


def test_task_that_fails_or_is_unknown_ends_with_a_message(context):
    def fail(context, state, report):
        raise RunError("This model has no heads.")

    runner = TaskRunner(context, {"fail": fail})
    (*_, end) = runner.run({"id": 5, "task": "fail", "state": STATE})
    assert end["error"] == "This model has no heads."
    assert [*runner.run({"id": 6, "task": "unknown"})][-1]["data"] is None


def test_unexpected_error_of_one_view_leaves_the_others(context, caplog):
    payloads = {
        "broken": needs()(lambda context, state: 1 / 0),
        "echo": needs()(lambda context, state: {"a": 1}),
    }
    request = {"id": 7, "state": STATE, "views": {"broken": "k", "echo": "k"}}
    views = answer_request(context, payloads, request)["views"]
    assert views["broken"] == {"key": "k", "error": UNEXPECTED_ERROR_MESSAGE}
    assert views["echo"]["data"] == {"a": 1}
    assert "ZeroDivisionError" in caplog.text


def test_payload_may_read_only_the_keys_that_it_needs(context, caplog):
    def read_head(context, state):
        return {"head": state[HEAD]}

    views = {name: name for name in ("watched", "unwatched", "none")}
    payloads = {
        "watched": needs(HEAD)(lambda *each: read_head(*each)),
        "unwatched": needs(MODEL, unwatched=(HEAD,))(lambda *each: read_head(*each)),
        "none": needs(MODEL)(lambda *each: read_head(*each)),
    }
    request = {"state": {**STATE, "head": 3}, "views": views}
    answers = answer_request(context, payloads, request)["views"]
    assert answers["watched"]["data"] == answers["unwatched"]["data"] == {"head": 3}
    assert "error" in answers["none"] and "reads 'head', which it does not need" in caplog.text


def test_browser_receives_the_watched_keys_of_each_view(context):
    payloads = {
        "a": needs(IMAGE, MODEL, unwatched=(HEAD,))(lambda *_: {}),
        "b": needs()(lambda *_: {}),
    }
    assert Responder(context, Feature(payloads)).list_needs() == {
        "a": ["image", "model"],
        "b": [],
    }


def test_features_with_the_same_name_are_refused():
    first, second = Feature({"view": lambda *_: {}}), Feature(tasks={"view": lambda *_: None})
    merged = merge_features([first, second])
    assert (merged.payloads, merged.tasks) == (first.payloads, second.tasks)
    with pytest.raises(ValueError, match="two features have payloads of the name 'view'"):
        merge_features([first, second, first])
