"""Robustness: accuracy equals a loop over single pictures, and each point is measured once."""

import numpy as np
import pytest
import torch
from PIL import Image

from tests.making import CLASSES, RESNET, VIT, make_run
from vitdemo import robustness
from vitdemo.errors import DataError
from vitdemo.perturb import PERTURBATIONS, apply
from vitdemo.workbench import Workbench

CPU = torch.device("cpu")
FEW = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Noise pictures of unequal sizes of all ten classes, two of each to test with."""
    root = tmp_path_factory.mktemp("pictures")
    random = np.random.default_rng(0)
    for part, each in {"train": 1, "test": 2}.items():
        for name in CLASSES:
            (root / part / name).mkdir(parents=True)
            for i in range(each):
                pixels = random.integers(0, 256, (20 + i, 17, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(root / part / name / f"{i}.png")
    return root


@pytest.fixture
def workbench(folder, tmp_path):
    make_run(tmp_path / "vit", VIT)
    make_run(tmp_path / "resnet", RESNET, seed=2)
    return Workbench([tmp_path], folder, CPU)


@pytest.fixture
def passes(monkeypatch):
    """Names and strengths of the points that were really measured."""
    seen = []

    def counted(model, preprocessing, sample, change, strength):
        seen.append((change, strength))
        return real(model, preprocessing, sample, change, strength)

    real = robustness.accuracy_under
    monkeypatch.setattr(robustness, "accuracy_under", counted)
    return seen


@pytest.mark.parametrize("name", ["vit", "resnet"])
def test_accuracy_is_that_of_single_pictures(workbench, name):
    run = workbench.run(name)
    found = robustness.robustness(workbench, run, ["noise", "shuffle"], FEW)
    pictures, model = workbench.sample(run, FEW), workbench.model(run)
    for change, curve in found.curves.items():
        assert curve.strengths == PERTURBATIONS[change].strengths
        for strength, share in zip(curve.strengths, curve.accuracy, strict=True):
            right = 0
            for i, (image, label) in enumerate(zip(pictures.images, pictures.labels, strict=True)):
                changed = apply(change, image[None], strength, i)
                with torch.no_grad():
                    right += int(model(run.preprocessing(changed)).argmax()) == label
            assert share == int(right) / FEW


def test_batches_change_nothing(workbench):
    run = workbench.run("vit")
    sample, model = workbench.sample(run, FEW), workbench.model(run)
    arguments = (model, run.preprocessing, sample, "noise", 40)
    assert robustness.accuracy_under(*arguments) == robustness.accuracy_under(
        *arguments, batch_size=5
    )


def test_all_changes_are_measured_and_told_step_by_step(workbench):
    steps = []
    found = robustness.robustness(workbench, workbench.run("vit"), count=FEW, on_step=steps.append)
    assert list(found.curves) == list(PERTURBATIONS)
    assert (found.run, found.pictures) == ("vit", FEW)
    assert [step.done for step in steps] == list(range(1, steps[0].total + 1))
    assert len({curve.untouched for curve in found.curves.values()}) == 1
    for step in steps:
        curve = found.curves[step.change]
        assert curve.accuracy[curve.strengths.index(step.strength)] == step.accuracy


def test_a_point_is_measured_once_and_the_untouched_one_for_all_curves(workbench, passes):
    run = workbench.run("vit")
    first = robustness.robustness(workbench, run, ["blur", "jpeg"], FEW)
    assert len(passes) == len(set(passes)) == 9  # 5 and 5, less the neutral one of the second
    assert robustness.robustness(workbench, run, ["blur", "jpeg"], FEW) == first
    robustness.robustness(workbench, run, ["blur"], FEW)
    assert len(passes) == 9


def test_what_a_cancelled_measurement_has_done_is_kept(workbench, passes):
    steps = robustness.measure(workbench, workbench.run("vit"), ["blur"], FEW)
    next(steps), next(steps)
    steps.close()
    list(robustness.measure(workbench, workbench.run("vit"), ["blur"], FEW))
    assert len(passes) == 5


def test_new_weights_are_measured_again(workbench, passes, tmp_path):
    robustness.robustness(workbench, workbench.run("vit"), ["blur"], FEW)
    make_run(tmp_path / "vit", VIT, seed=7)
    robustness.robustness(workbench, workbench.run("vit"), ["blur"], FEW)
    assert len(passes) == 10


def test_an_unknown_change_names_the_choices(workbench):
    with pytest.raises(ValueError, match="'fog': choose noise, blur"):
        robustness.robustness(workbench, workbench.run("vit"), ["fog"])


def test_without_the_data_set_the_way_out_is_named(tmp_path):
    run = make_run(tmp_path / "runs" / "vit")
    workbench = Workbench([run.path.parent], tmp_path / "none", CPU)
    with pytest.raises(DataError, match="--data"):
        robustness.robustness(workbench, run)


def test_other_classes_than_the_runs_are_named(put_pictures, tmp_path):
    run = make_run(tmp_path / "runs" / "vit")
    counts = {f"{part}/{name}": 1 for part in ("train", "test") for name in ("ant", "bee")}
    workbench = Workbench([run.path.parent], put_pictures(counts), CPU)
    with pytest.raises(DataError, match="'vit' was trained on other classes"):
        robustness.robustness(workbench, run)


def test_a_picture_that_cannot_be_read_is_named(put_pictures, tmp_path):
    run = make_run(tmp_path / "runs" / "vit")
    root = put_pictures({f"{part}/{name}": 1 for part in ("train", "test") for name in CLASSES})
    (root / "test" / "cat" / "broken.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"broken\.png"):
        robustness.robustness(Workbench([run.path.parent], root, CPU), run)


def test_pictures_of_any_side_can_be_shuffled():
    images = torch.randint(0, 256, (2, 3, 30, 30), dtype=torch.uint8)
    assert robustness.change_all(images, "shuffle", 8).shape == (2, 3, 32, 32)
    assert robustness.change_all(images, "shuffle", 2).shape == images.shape


def test_each_picture_meets_a_draw_of_its_own():
    images = torch.full((3, 3, 8, 8), 128, dtype=torch.uint8)
    noisy = robustness.change_all(images, "noise", 30)
    assert not torch.equal(noisy[0], noisy[1])
    later = robustness.change_all(images, "noise", 30, first=1)
    assert torch.equal(later[0], noisy[1])
