"""The exported site: its files, its recorded answers, and refusals."""

import json

import pytest

from tests.support.factories import make_context
from tests.support.loops import call_in_loop
from tests.support.sites import ignore_progress, read_settings
from vitdemo.data import MISSING_DATASET
from vitdemo.data.ground_truth import TASKS
from vitdemo.errors import DataError, SiteError
from vitdemo.page import FEATURE
from vitdemo.page import state_keys as keys
from vitdemo.page.image_sources import list_truth_sources
from vitdemo.page.view_state import needs
from vitdemo.site import export
from vitdemo.site.record import NEEDS_DATASET, Recorder, format_state
from vitdemo.site.states import list_images


def test_each_recorded_state_has_an_answer_and_its_files(exported_site):
    answers = exported_site / "data" / "answers"
    named = set()
    for index in (exported_site / "data").glob("*.json"):
        named |= {*json.loads(index.read_text("utf-8")).values()}
    assert named == {file.name for file in answers.iterdir()}
    settings = read_settings(exported_site)
    components = [each["value"] for each in settings["components"].values()]
    inputs = exported_site / "data" / "graphs" / "inputs.json"
    contents = [json.loads(file.read_text("utf-8")) for file in (*answers.iterdir(), inputs)]
    urls = {file["url"] for each in (*contents, *components) for file in each["files"]}
    assert urls == {f"data/files/{file.name}" for file in (exported_site / "data/files").iterdir()}


def test_views_of_the_layout_are_recorded(exported_site):
    places = read_settings(exported_site)["places"].values()
    views = {name for name in places if isinstance(name, str) and name in FEATURE.payloads}
    assert len(views) > 25
    assert views <= {file.stem for file in (exported_site / "data").glob("*.json")}


def test_recorded_answers_are_those_of_the_payload_functions(exported_site, shown, tmp_path):
    name = "layer_by_layer"
    image = list_images()[1]
    state = {"image": image, "model": "timm"}
    index = json.loads((exported_site / "data" / f"{name}.json").read_text("utf-8"))
    path = exported_site / "data" / "answers" / index[format_state([image, "timm"])]
    computed = Recorder(shown, tmp_path).compute(FEATURE.payloads[name], state)
    assert json.loads(path.read_bytes()) == json.loads(computed)


def test_recorded_maps_are_tested(exported_site):
    index = json.loads((exported_site / "data" / "class_attribution.json").read_text("utf-8"))
    for path in {*index.values()}:
        answer = json.loads((exported_site / "data" / "answers" / path).read_text("utf-8"))
        data = json.loads(answer["text"])["data"]
        assert not data["is_untested"]
        assert {*data["scores"]["maps"]} == {each["name"] for each in data["maps"]}


def test_recorded_activation_patching_has_maps(exported_site):
    index = json.loads((exported_site / "data" / "patching.maps.json").read_text("utf-8"))
    answers = exported_site / "data" / "answers"
    texts = {
        path: json.loads((answers / path).read_text("utf-8"))["text"] for path in index.values()
    }
    data = [json.loads(text).get("data") for text in texts.values()]
    found = [each for each in data if each]  # not of the model without attention
    assert {each["run"] for each in found} == {"vit", "timm", *TASKS}
    assert all(len(each["result"]["maps"]) == each["layers"] + 1 for each in found)


def test_no_image_of_a_dataset_is_exported(exported_site):
    shown = json.loads((exported_site / "data" / "image_input.json").read_text("utf-8"))
    sources = {json.loads(state)[0]["source"] for state in shown}
    assert sources == {each["source"] for each in list_images()} | {*list_truth_sources()}
    texts = [file.read_text("utf-8") for file in (exported_site / "data/answers").iterdir()]
    assert any(NEEDS_DATASET in text for text in texts)
    assert not any(MISSING_DATASET in text for text in texts)


def test_a_result_of_the_dataset_has_one_answer(shown, tmp_path):
    def fail(context, state):
        raise DataError(f"{MISSING_DATASET}: '/folder'")

    Recorder(shown, tmp_path).record(
        {"needs_images": needs(keys.IMAGE)(fail)}, ["needs_images"], {}, {}, ignore_progress
    )
    index = json.loads((tmp_path / "data" / "needs_images.json").read_text("utf-8"))
    assert [*index] == ["*"]
    answer = json.loads((tmp_path / "data" / "answers" / index["*"]).read_text("utf-8"))
    assert json.loads(answer["text"]) == {"error": NEEDS_DATASET}


def test_state_has_the_json_of_javascript():
    values = [None, True, 1.0, 0.5, "é", ("",), {"source": "photo:cat", "path": None, "at": 0.5}]
    assert format_state(values) == (
        '[null,true,1,0.5,"é",[""],{"source":"photo:cat","path":null,"at":0.5}]'
    )


def test_a_view_with_too_many_states_is_refused(shown, tmp_path, monkeypatch):
    monkeypatch.setattr("vitdemo.site.record.MAX_STATES", len(list_images()) - 1)
    recorder = Recorder(shown, tmp_path)
    with pytest.raises(ValueError, match="image_input"):
        recorder.record(FEATURE.payloads, ["image_input"], {}, {}, ignore_progress)


def test_a_folder_with_files_is_kept(tmp_path):
    (tmp_path / "own.txt").write_text("")
    with pytest.raises(SiteError, match="--force"):
        export.export_site(tmp_path, report=ignore_progress)
    assert [file.name for file in tmp_path.iterdir()] == ["own.txt"]


def test_a_stopped_export_leaves_no_files(shown_runs, tmp_path):
    def stop(view: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    folder = tmp_path / "site"
    with pytest.raises(KeyboardInterrupt):
        call_in_loop(lambda: export.export_site(folder, [shown_runs], report=stop))
    assert [*tmp_path.iterdir()] == []


def test_depth_of_each_model_is_recorded(exported_site, shown):
    settings = read_settings(exported_site)
    layers = {run.name: shown.count_layers(run) for run in shown.explainable_runs()}
    depths = {name: each["layers"] for name, each in settings["depths"].items()}
    assert depths == layers | dict.fromkeys(TASKS, 4)
    assert settings["models"]["groups"][0][1] == [*layers]
    assert settings["description"]["needs"]["layer_by_layer"] == [keys.IMAGE.name, keys.MODEL.name]
    assert make_context().explainable_runs() == []
