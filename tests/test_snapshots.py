"""One picture epoch by epoch: the film, and from when on it was named rightly."""

import numpy as np
import pytest
import torch
from PIL import Image

from tests.factories import CLASSES, VIT, make_run, random_model, record_start_weights
from vitdemo import runs
from vitdemo.analyses.snapshots import (
    describe_learning,
    load_snapshots,
    runs_with_snapshots,
    subsample,
)
from vitdemo.context import AppContext
from vitdemo.errors import RunError
from vitdemo.explain import forward_pass
from vitdemo.page.components.film_view import SnapshotPayload, SnapshotView
from vitdemo.page.look.inside.epochs import epoch_map_row, names_with_epochs


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    run = make_run(root / "vit", epochs=3)
    for epoch in (1, 2):
        runs.write_weights(run.path, random_model(VIT, epoch).state_dict(), epoch)
    make_run(root / "other")
    return AppContext([root], None, torch.device("cpu"))


@pytest.fixture(scope="module")
def image():
    pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def test_snapshots_contain_every_epoch_and_are_cached(bench, image, monkeypatch):
    (run,) = runs_with_snapshots(bench)
    found = load_snapshots(bench, run, image)
    assert found.epochs == (1, 2, 3)  # the last one's weights are those to use
    assert found.maps.shape == (3, 3, 16) and found.grid == (4, 4)
    model = runs.load_model(run, "cpu", 2)
    trace = forward_pass.trace(model, bench.prepare_input(run.preprocessing, image)[1])
    own = trace.attention[:, 0].mean(1)[:, 0, 1:]
    assert np.allclose(found.maps[1], own.detach().numpy(), atol=1e-6)
    assert np.allclose(found.probabilities.sum(1), 1, atol=1e-5)
    monkeypatch.setattr(runs, "load_model", lambda *_: pytest.fail("it is known"))
    assert np.array_equal(load_snapshots(bench, run, image).maps, found.maps)
    with pytest.raises(RunError, match="'other' has no saved weights yet"):
        load_snapshots(bench, bench.find_run("other"), image)


def test_snapshots_include_the_runs_that_a_run_started_from(tmp_path, image):
    masked, other = make_run(tmp_path / "masked"), {"mean": [0.5] * 3, "std": [0.5] * 3}
    first = record_start_weights(make_run(tmp_path / "first"), masked, 3)
    runs.write_config(first.path, first.config | {"normalisation": other})
    second = record_start_weights(make_run(tmp_path / "second", epochs=2), first, 2)
    for run, epoch in ((masked, 1), (first, 1), (first, 3), (second, 1)):
        runs.write_weights(run.path, random_model(VIT, epoch).state_dict(), epoch)
    recipe = masked.config["recipe"] | {"mask_ratio": 0.75}
    runs.write_config(masked.path, masked.config | {"recipe": recipe})
    assert [
        (kept.epoch, kept.run.name, kept.run_epoch) for kept in runs.list_saved_weights(second)
    ] == [
        (1, "first", 1),  # without labels nothing is answered
        (3, "second", 1),  # after two epochs of the first, whose third led nowhere
    ]
    bench = AppContext([tmp_path], None, torch.device("cpu"))
    found = load_snapshots(bench, bench.find_run("second"), image)
    assert found.epochs == (1, 3, 4)
    alone = AppContext([tmp_path], None, torch.device("cpu"))  # which has nothing in its cache
    assert np.array_equal(
        found.maps[0], load_snapshots(alone, alone.find_run("first"), image).maps[0]
    )
    other = record_start_weights(make_run(tmp_path / "other", classes=CLASSES[::-1]), first, 2)
    assert runs.list_saved_weights(other) == []  # it answers something else


def test_many_epochs_are_subsampled_evenly():
    expected = {0: [], 1: [1], 5: [1, 2, 3, 4, 5], 10: [1, 3, 5, 8, 10]}
    for count, shown in expected.items():
        assert subsample(list(range(1, count + 1)), 5) == shown


def test_epoch_row_shows_one_layer_of_the_snapshots(tmp_path, image):
    run = make_run(tmp_path / "vit", epochs=40)
    for epoch in range(1, 31):
        runs.write_weights(run.path, random_model(VIT, epoch % 3).state_dict(), epoch)
    bench = AppContext([tmp_path], None, torch.device("cpu"))
    assert names_with_epochs(bench) == ["vit"]
    found = load_snapshots(bench, run, image, 5)
    assert found.epochs == (1, 8, 15, 23, 30, 40)
    panels = epoch_map_row(found, 2).panels
    assert [each.title for each in panels] == [f"Epoch {epoch}" for epoch in found.epochs]
    for e, each in enumerate(panels):
        assert np.array_equal(each.values, found.maps[e, 1].reshape(4, 4))
        assert CLASSES[found.predicted[e]] in each.lines[0]


def test_snapshot_payload_contains_every_map_and_the_true_class(
    bench, image, tmp_path, monkeypatch
):
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "cache"))
    found = load_snapshots(bench, bench.find_run("vit"), image)
    truth = CLASSES[int(found.probabilities[-1].argmin())]
    value = SnapshotView().to_payload(SnapshotPayload(found, truth))
    assert np.array(value["maps"]).shape == (3, 3, 16)
    assert value["classes"][-1] == truth and len(value["classes"]) == 5
    assert value["predicted"] == [CLASSES[i] for i in found.predicted]


def test_description_states_when_an_image_was_learned():
    expected = {
        (False, True, True): "Correct from epoch 2 on.",
        (True, False, True): "Correct from epoch 4 on; forgotten after epoch 2.",
        (
            True,
            True,
            False,
        ): "First correct after epoch 1, but not at the end; forgotten after epoch 4.",
        (False, False, False): "The prediction was incorrect after all of these epochs.",
    }
    for right, words in expected.items():
        assert describe_learning(list(right), [1, 2, 4]) == words
