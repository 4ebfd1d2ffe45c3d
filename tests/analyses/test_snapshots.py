"""Maps and predictions of one image across epochs, and the epoch that learned it."""

import json

import numpy as np
import pytest

from tests.support.factories import (
    CLASSES,
    VIT,
    make_context,
    make_run,
    noise,
    random_model,
    record_start_weights,
)
from vitdemo import runs
from vitdemo.analyses.snapshots import (
    load_snapshots,
    runs_with_snapshots,
)
from vitdemo.errors import RunError
from vitdemo.explain import forward_pass
from vitdemo.jobs import JobQueue
from vitdemo.jobs.state import Job
from vitdemo.page.state_keys import ANIMATED_RUN, FOLLOWED_RUN
from vitdemo.page.training import image_across_epochs
from vitdemo.page.training.image_across_epochs import snapshots_to_payload
from vitdemo.page.view_state import ViewState

IMAGE = noise(size=(16, 16))


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    run = make_run(root / "vit", epochs=3)
    for epoch in (1, 2):
        runs.write_weights(run.path, random_model(VIT, epoch).state_dict(), epoch)
    make_run(root / "other")
    return make_context(root)


def test_snapshots_contain_every_epoch_and_are_cached(bench, monkeypatch):
    (run,) = runs_with_snapshots(bench)
    snapshots = load_snapshots(bench, run, IMAGE)
    assert snapshots.epochs == (1, 2, 3)  # the last epoch has the final weights
    assert snapshots.maps.shape == (3, 3, 16) and snapshots.grid == (4, 4)
    model = runs.load_model(run, "cpu", 2)
    trace = forward_pass.trace(model, bench.prepare_input(run.preprocessing, IMAGE)[1])
    expected = trace.attention[:, 0].mean(1)[:, 0, 1:]
    assert np.allclose(snapshots.maps[1], expected.detach().numpy(), atol=1e-6)
    assert np.allclose(snapshots.probabilities.sum(1), 1, atol=1e-5)
    monkeypatch.setattr(runs, "load_model", lambda *_: pytest.fail("it is cached"))
    assert np.array_equal(load_snapshots(bench, run, IMAGE).maps, snapshots.maps)
    with pytest.raises(RunError, match="'other' has no saved weights yet"):
        load_snapshots(bench, bench.find_run("other"), IMAGE)


def test_snapshots_include_the_runs_that_a_run_started_from(tmp_path):
    masked, values = make_run(tmp_path / "masked"), {"mean": [0.5] * 3, "std": [0.5] * 3}
    first = record_start_weights(make_run(tmp_path / "first"), masked, 3)
    runs.write_config(first.path, first.config | {"normalisation": values})
    second = record_start_weights(make_run(tmp_path / "second", epochs=2), first, 2)
    for run, epoch in ((masked, 1), (first, 1), (first, 3), (second, 1)):
        runs.write_weights(run.path, random_model(VIT, epoch).state_dict(), epoch)
    recipe = masked.config["recipe"] | {"mask_ratio": 0.75}
    runs.write_config(masked.path, masked.config | {"recipe": recipe})
    saved = runs.list_saved_weights(second)
    assert [(each.epoch, each.run.name, each.run_epoch) for each in saved] == [
        (1, "first", 1),  # a run without labels has no predictions
        (3, "second", 1),  # it started after epoch 2 of the first run
    ]
    context, fresh = make_context(tmp_path), make_context(tmp_path)
    snapshots = load_snapshots(context, context.find_run("second"), IMAGE)
    assert snapshots.epochs == (1, 3, 4)
    first_maps = load_snapshots(fresh, fresh.find_run("first"), IMAGE).maps
    assert np.array_equal(snapshots.maps[0], first_maps[0])
    other = record_start_weights(make_run(tmp_path / "other", classes=CLASSES[::-1]), first, 2)
    assert runs.list_saved_weights(other) == []  # its classes are different


def test_an_epoch_that_was_stopped_early_counts_as_a_fraction(tmp_path):
    run = make_run(tmp_path / "vit", epochs=2)
    first, last = run.history
    lines = json.dumps(first), json.dumps(last | {"share": 0.03125})
    (run.path / runs.HISTORY_FILE).write_text("\n".join(lines) + "\n")
    runs.write_weights(run.path, random_model(VIT, 1).state_dict(), 1)
    context = make_context(tmp_path)
    snapshots = load_snapshots(context, context.find_run("vit"), IMAGE)
    assert snapshots.epochs == (1, 2) and snapshots.trained == (1, 1.03)
    runs.write_weights(run.path, random_model(VIT, 2).state_dict(), 2)  # training saves it also
    snapshots = load_snapshots(context, context.find_run("vit"), IMAGE)
    assert snapshots_to_payload(snapshots, None)["trained"] == [1, 1.03]


def test_snapshot_payload_contains_every_map_and_the_true_class(bench):
    snapshots = load_snapshots(bench, bench.find_run("vit"), IMAGE)
    true_class = CLASSES[int(snapshots.probabilities[-1].argmin())]
    value = snapshots_to_payload(snapshots, true_class)
    assert np.array(value["maps"]).shape == (3, 3, 16)
    assert value["classes"][-1] == true_class and len(value["classes"]) == 5
    assert value["predicted"] == [CLASSES[i] for i in snapshots.predicted]


def test_the_animation_switches_to_each_new_training_run_once(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(image_across_epochs, "load_square", lambda *_: IMAGE)
    jobs, newest = JobQueue(tmp_path), []
    monkeypatch.setattr(image_across_epochs, "find_followed_job", lambda _: (newest or [None])[-1])
    make_run(bench.roots[0] / "second", epochs=1)
    runs.write_weights(bench.roots[0] / "second", random_model(VIT, 1).state_dict(), 1)

    def shown(**options):
        names = {"run": ANIMATED_RUN.name, "followed": FOLLOWED_RUN.name}
        state = ViewState(None, "", {names[key]: value for key, value in options.items()})
        found = image_across_epochs.payload(jobs, bench, state)
        name = found.controls[ANIMATED_RUN.name]["value"]
        assert found.data["run"] == name
        return name, found.data["followed"]

    first = shown()[0]
    assert shown(run="gone") == (first, "")
    assert shown(run="vit", followed="") == ("vit", "")
    newest.append(Job("second", tmp_path, {}, "training"))
    assert shown() == shown(run="vit", followed="") == ("second", "second")
    assert shown(run="vit", followed="second") == ("vit", "second")  # the user's later choice
    assert shown(run="vit") == ("vit", "second")  # of the URL
    newest.append(Job("unsaved", tmp_path, {}, "finished"))
    assert shown(run="vit", followed="second") == ("vit", "second")
    newest.append(Job("unsaved", tmp_path, {}, "starting"))
    waiting = image_across_epochs.payload(jobs, bench, ViewState(None, "")).data["message"]
    assert waiting == "The map of unsaved appears after its first epoch."


def test_an_animation_without_saved_epochs_or_image_is_a_message(tmp_path, bench):
    def message(context):
        state = ViewState(None, "")
        return image_across_epochs.payload(JobQueue(tmp_path), context, state).data["message"]

    assert "No image is chosen" in message(bench)
    make_run(tmp_path / "runs" / "plain")
    assert "--save-epochs 1,2,4,8" in image_across_epochs.NO_SNAPSHOTS_MESSAGE
    assert message(make_context(tmp_path / "runs")) == image_across_epochs.NO_SNAPSHOTS_MESSAGE
