"""Payload of the linear probes: stored and computed results."""

import pytest

from tests.support.factories import RESNET, make_context, make_run, write_noise_images
from vitdemo.analyses.linear_probes import LayerProbes, compute_probes, write_probes
from vitdemo.errors import DataError, RunError
from vitdemo.page.explore.inside import linear_probes
from vitdemo.page.view_state import ViewState


def test_probes_are_shown_after_the_task(tmp_path):
    run = make_run(tmp_path / "runs" / "vit")
    counts = {f"{part}/{name}": 3 for part in ("train", "test") for name in run.classes}
    context = make_context(
        tmp_path / "runs", data_root=write_noise_images(tmp_path / "data", counts)
    )
    state, reports = ViewState(None, "vit"), []
    assert linear_probes.payload(context, state) == {"run": "vit", "layers": 3, "result": None}
    linear_probes.compute(context, state, lambda *report: reports.append(report))
    found, expected = linear_probes.payload(context, state), compute_probes(context, run)
    assert found["result"]["training"] == found["result"]["test"] == 30
    assert found["result"]["accuracies"].keys() == expected.accuracies.keys()
    for name, accuracies in expected.accuracies.items():
        assert found["result"]["accuracies"][name] == pytest.approx(accuracies, abs=1e-4)
    assert reports[0] == (0, 60, "Computing tokens") and len(reports) == 4


def test_stored_probes_are_shown_without_a_dataset(tmp_path):
    run, context = make_run(tmp_path / "vit"), make_context(tmp_path)
    with pytest.raises(DataError):
        linear_probes.payload(context, ViewState(None, "vit"))
    write_probes(run, LayerProbes(2000, 1000, {"class token": [0.1, 0.2, 0.3, 0.98765]}))
    context = make_context(tmp_path)
    assert linear_probes.payload(context, ViewState(None, "vit"))["result"] == {
        "training": 2000,
        "test": 1000,
        "accuracies": {"class token": [0.1, 0.2, 0.3, 0.9877]},
    }


def test_models_without_attention_are_named(tmp_path):
    make_run(tmp_path / "resnet", RESNET)
    with pytest.raises(RunError, match="no attention"):
        linear_probes.payload(make_context(tmp_path), ViewState(None, "resnet"))
