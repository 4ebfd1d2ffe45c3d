"""Robustness: accuracy equals a loop over single images, and each point is measured once."""

from dataclasses import replace
from unittest.mock import Mock

import pytest
import torch

from tests.support.factories import CLASSES, VIT, make_context, make_run, write_noise_images
from vitdemo.analyses import robustness
from vitdemo.analyses.robustness import measure_robustness
from vitdemo.data.perturb import PERTURBATIONS, apply_perturbation
from vitdemo.errors import DataError, RunError, Stopped
from vitdemo.page.results.compare import robustness as robustness_view
from vitdemo.page.view_state import ViewState

SAMPLE_SIZE = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder with the run "vit" and images of ten classes, two test images of each."""
    root = tmp_path_factory.mktemp("robust")
    counts = {f"{part}/{name}": 2 for part in ("train", "test") for name in CLASSES}
    write_noise_images(root / "data", counts)
    make_run(root / "runs" / "vit", VIT)
    return root


@pytest.fixture
def context(folder):
    return make_context(folder / "runs", data_root=folder / "data")


def test_batched_accuracy_equals_single_image_accuracy(context, monkeypatch):
    monkeypatch.setattr(robustness, "BATCH_SIZE", 5)
    run = context.find_run("vit")
    points = list(measure_robustness(context, run, ["noise", "shuffle"], SAMPLE_SIZE))
    sample, model = context.sample_test_images(run, SAMPLE_SIZE), context.load_model(run)
    for point in points:
        correct = 0
        for i, (image, label) in enumerate(zip(sample.images, sample.labels, strict=True)):
            changed = apply_perturbation(point.change, image[None], point.strength, i)
            with torch.no_grad():
                correct += int(model(run.preprocessing(changed)).argmax()) == label
        assert point.accuracy == int(correct) / SAMPLE_SIZE


def test_all_changes_are_measured_with_progress(context):
    points = list(measure_robustness(context, context.find_run("vit"), count=SAMPLE_SIZE))
    expected = [(name, s) for name, change in PERTURBATIONS.items() for s in change.strengths]
    assert [(point.change, point.strength) for point in points] == expected
    assert [point.done for point in points] == list(range(1, points[0].total + 1))
    neutral = [point for point in points if point.strength == PERTURBATIONS[point.change].neutral]
    assert len({point.accuracy for point in neutral}) == 1 and len(neutral) == len(PERTURBATIONS)


def test_points_are_measured_once_even_after_cancellation(context, monkeypatch):
    passes = Mock(wraps=robustness.perturbed_accuracy)
    monkeypatch.setattr(robustness, "perturbed_accuracy", passes)
    run = context.find_run("vit")
    points = measure_robustness(context, run, ["blur"], SAMPLE_SIZE)
    next(points), next(points)
    points.close()
    first = list(measure_robustness(context, run, ["blur", "jpeg"], SAMPLE_SIZE))
    assert passes.call_count == 9  # 5 strengths each, the neutral one shared
    assert list(measure_robustness(context, run, ["blur", "jpeg"], SAMPLE_SIZE)) == first
    assert passes.call_count == 9
    list(measure_robustness(context, replace(run, name="other"), ["blur"], SAMPLE_SIZE))
    assert passes.call_count == 14


def test_unknown_changes_and_unusable_data_raise_errors(context, put_pictures):
    run = context.find_run("vit")
    with pytest.raises(ValueError, match="'fog': choose noise, blur"):
        list(measure_robustness(context, run, ["fog"]))
    insects = put_pictures({f"{part}/{name}": 1 for part in ("train", "test") for name in "ab"})
    with pytest.raises(DataError, match="does not have the classes of 'vit'"):
        list(measure_robustness(make_context(*context.roots, data_root=insects), run))


def test_images_of_any_size_can_be_shuffled():
    images = torch.randint(0, 256, (2, 3, 30, 30), dtype=torch.uint8)
    assert robustness.perturb_images(images, "shuffle", 8).shape == (2, 3, 32, 32)
    assert robustness.perturb_images(images, "shuffle", 2).shape == images.shape


def test_each_image_gets_its_own_noise():
    images = torch.full((3, 3, 8, 8), 128, dtype=torch.uint8)
    noisy = robustness.perturb_images(images, "noise", 30)
    assert not torch.equal(noisy[0], noisy[1])
    later = robustness.perturb_images(images, "noise", 30, first=1)
    assert torch.equal(later[0], noisy[1])


# --- the view ------------------------------------------------------------------------------------


def make_state(models=("vit",), changes=("blur",), count=200) -> ViewState:
    options = {"compare.models": [*models], "compare.changes": [*changes], "compare.images": count}
    return ViewState(None, "", options)


def test_view_shows_the_measured_curves_of_the_choices(context):
    assert robustness_view.payload(context, make_state()).data == {}
    reports = []
    state = make_state(changes=["blur", "noise", "fog"])
    assert robustness_view.measure(context, state, lambda *step: reports.append(step)) == []
    assert [text for _, _, text in reports[1::5]] == ["vit: Noise", "vit: Blur"]
    assert reports[0] == (0, 10, "vit: Noise")  # before the first step
    assert [done for done, _, _ in reports] == [*range(11)]
    found = robustness_view.payload(context, make_state()).data
    (plot,) = found["plots"]
    assert plot["title"] == "Blur" and plot["steps"] == ["0", "1", "2", "4", "8"]
    points = measure_robustness(context, context.find_run("vit"), ["blur"], 200)
    assert plot["lines"][0]["y"] == [100 * point.accuracy for point in points]
    assert "Accuracy in percent on 20 test images" in plot["note"]
    assert [entry["name"] for entry in found["legend"]] == ["vit"]
    assert found["csv"]["rows"][0] == ["change", "strength", "model", "accuracy"]
    assert len(found["csv"]["rows"]) == 6
    assert robustness_view.payload(context, make_state(count=300)).data == {}
    assert robustness_view.payload(context, make_state(models=[])).data == {}


def test_cancelled_measurement_shows_only_complete_curves(context):
    def stop_in_second_curve(done, total, text):
        if done == 7:
            raise Stopped

    state = make_state(changes=["noise", "blur"])
    with pytest.raises(Stopped):
        robustness_view.measure(context, state, stop_in_second_curve)
    (plot,) = robustness_view.payload(context, state).data["plots"]
    assert plot["title"] == "Noise"


def test_models_that_no_longer_exist_are_deselected(context):
    def read(*names):
        return robustness_view.payload(context, make_state(names)).controls["compare.models"]

    assert read("vit", "deleted") == {"props": {"groups": [("Models", ["vit"])]}, "value": ["vit"]}
    assert read("deleted")["value"] == ["vit"]
    assert read()["value"] == []


def test_measurement_needs_a_choice_and_the_dataset(context, folder):
    for state in (make_state(models=[]), make_state(changes=[]), make_state(models=["deleted"])):
        with pytest.raises(RunError, match="Choose at least one model and one change above"):
            robustness_view.measure(context, state, lambda *_: None)
    nothing = make_context(folder / "runs")
    (problem,) = robustness_view.measure(nothing, make_state(), lambda *_: None)
    assert "train.py download" in problem
    with pytest.raises(DataError, match="There is no dataset"):
        robustness_view.payload(nothing, make_state())
