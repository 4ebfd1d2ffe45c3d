"""The states of views that a recorded site contains."""

import pytest

from tests.support.factories import TRUTH_FOLDER, make_context
from vitdemo.page import FEATURE
from vitdemo.page import state_keys as keys
from vitdemo.page.view_state import get_needs
from vitdemo.site import states
from vitdemo.site.states import StateLister, list_images


@pytest.fixture(scope="module")
def lister(shown) -> StateLister:
    return StateLister(shown, {})


def list_values(found: list[states.State], key) -> list:
    return [state[key.name] for state in found]


def test_main_keys_are_combined(lister):
    found = list(lister.list_states([keys.IMAGE, keys.MODEL, keys.LAYER]))
    layers = {
        run.name: lister.context.count_layers(run) for run in lister.context.explainable_runs()
    }
    assert len(layers) == 3
    assert len(found) == len(list_images()) * sum(count + 1 for count in layers.values())
    chosen = {(state["model"], state["layer"]) for state in found}
    assert chosen == {(name, i) for name, count in layers.items() for i in range(count + 1)}


def test_ground_truth_images_are_combined_only_with_their_model(shown_runs):
    lister = StateLister(make_context(shown_runs, truth_root=TRUTH_FOLDER), {})
    found = list(lister.list_states([keys.IMAGE, keys.MODEL]))
    truth = [each for each in found if each["image"]["source"].startswith("truth:")]
    assert len(truth) == 6 and len(found) == 6 + 3 * len(list_images())
    assert all(f"truth:{each['model']}:" in each["image"]["source"] for each in truth)
    models = list_values(list(lister.list_states([keys.MODEL])), keys.MODEL)
    assert models[-2:] == ["one-mark", "two-marks"] and len(models) == 5


def test_few_options_are_combined_and_many_change_one_at_a_time(lister, monkeypatch):
    options = [keys.CELL_UNIT, keys.ERRORS_ONLY]
    count = len(keys.CELL_UNIT.choices) * 2
    assert len(list(lister.list_states(options))) == count
    monkeypatch.setattr(states, "MAX_COMBINATIONS", count - 1)
    found = list(lister.list_states(options))
    assert len(found) == count / 2 + 1
    start = {key.name: key.start for key in options}
    assert found[0] == start
    assert all(len(state.items() - start.items()) == 1 for state in found[1:])


def test_initial_values_of_controls_replace_those_of_keys(shown):
    found = StateLister(shown, {keys.TSNE_IMAGES.name: 400}).list_states([keys.TSNE_IMAGES])
    assert list_values(list(found), keys.TSNE_IMAGES) == [400]


def test_changes_of_an_image_are_its_presets(lister):
    found = list(lister.list_states([keys.PIECES, keys.STRENGTHS["blur"], keys.REMOVED_PATCHES]))
    assert found[0] == {"pieces": 1, "blur": 0, "removed": ""}
    assert any(state["removed"] for state in found)
    assert len(found) == len(set(map(str, found)))


def test_explained_classes_are_the_most_probable(lister):
    found = list(lister.list_states([keys.IMAGE, keys.MODEL, keys.EXPLAINED_CLASS]))
    run = lister.context.find_run("vit")
    first = [each for each in found if each["model"] == "vit"][: states.EXPLAINED_CLASSES + 1]
    chosen = list_values(first, keys.EXPLAINED_CLASS)
    assert chosen[0] == ""
    image = lister.load_image(first[0])
    probabilities = lister.context.predict(run, image).probabilities
    best = sorted(run.classes, key=lambda name: -probabilities[run.classes.index(name)])
    assert chosen[1:] == best[: states.EXPLAINED_CLASSES]


def test_states_contain_the_needed_keys_with_valid_values(lister):
    for name, payload in FEATURE.payloads.items():
        needed = get_needs(payload).watched
        for state in lister.list_states(needed):
            assert [*state] == [key.name for key in needed], name
            for key in set(needed) - {keys.IMAGE}:
                value = state[key.name]
                assert value == key.start or key.read(value) == value, (name, key)


def test_without_models_no_model_is_recorded(tmp_path):
    lister = StateLister(make_context(tmp_path), {})
    assert list(lister.list_states([keys.IMAGE, keys.MODEL])) == []


def test_selections_of_runs_are_recorded(lister):
    runs = list_values(list(lister.list_states([keys.CURVE_RUNS])), keys.CURVE_RUNS)
    assert runs == [keys.CURVE_RUNS.start, ["resnet"], ["timm"], ["vit"]]
    found = list(lister.list_states([keys.SIDE_MODELS]))
    chosen = {frozenset(each) for each in list_values(found, keys.SIDE_MODELS)}
    assert len(chosen) == 8
