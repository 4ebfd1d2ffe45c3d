"""Robustness: accuracy equals a loop over single pictures, and each point is measured once."""

import shutil

import pytest
import torch

from tests.conftest import write_pictures
from tests.making import CLASSES, VIT, make_run
from vitdemo import robustness
from vitdemo.errors import DataError
from vitdemo.perturb import PERTURBATIONS, apply
from vitdemo.robustness import measure
from vitdemo.workbench import Workbench

CPU = torch.device("cpu")
FEW = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The run "vit" and pictures of all ten classes, two of each to test with."""
    root = tmp_path_factory.mktemp("robust")
    each = {"train": 1, "test": 2}.items()
    write_pictures(root / "data", {f"{p}/{name}": count for p, count in each for name in CLASSES})
    make_run(root / "runs" / "vit", VIT)
    return root


@pytest.fixture
def workbench(folder):
    return Workbench([folder / "runs"], folder / "data", CPU)


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


def test_accuracy_is_that_of_single_pictures(workbench):
    run = workbench.run("vit")
    found = list(measure(workbench, run, ["noise", "shuffle"], FEW))
    pictures, model = workbench.sample(run, FEW), workbench.model(run)
    for point in found:
        right = 0
        for i, (image, label) in enumerate(zip(pictures.images, pictures.labels, strict=True)):
            changed = apply(point.change, image[None], point.strength, i)
            with torch.no_grad():
                right += int(model(run.preprocessing(changed)).argmax()) == label
        assert point.accuracy == int(right) / FEW
    arguments = (model, run.preprocessing, pictures, "noise", 40)
    in_parts = robustness.accuracy_under(*arguments, batch_size=5)
    assert robustness.accuracy_under(*arguments) == in_parts


def test_all_changes_are_measured_and_told_step_by_step(workbench):
    found = list(measure(workbench, workbench.run("vit"), count=FEW))
    asked = [(name, each) for name, one in PERTURBATIONS.items() for each in one.strengths]
    assert [(point.change, point.strength) for point in found] == asked
    assert [point.done for point in found] == list(range(1, found[0].total + 1))
    neutral = [point for point in found if point.strength == PERTURBATIONS[point.change].neutral]
    assert len({point.accuracy for point in neutral}) == 1 and len(neutral) == len(PERTURBATIONS)


def test_a_point_is_measured_once_even_of_what_was_cancelled(workbench, passes):
    run = workbench.run("vit")
    points = measure(workbench, run, ["blur"], FEW)
    next(points), next(points)
    points.close()
    first = list(measure(workbench, run, ["blur", "jpeg"], FEW))
    assert len(passes) == len(set(passes)) == 9  # 5 and 5, less the neutral one of the second
    assert list(measure(workbench, run, ["blur", "jpeg"], FEW)) == first
    list(measure(workbench, run, ["blur"], FEW))
    assert len(passes) == 9


def test_new_weights_are_measured_again(folder, passes, tmp_path):
    shutil.copytree(folder / "runs", tmp_path / "runs")
    workbench = Workbench([tmp_path / "runs"], folder / "data", CPU)
    list(measure(workbench, workbench.run("vit"), ["blur"], FEW))
    make_run(tmp_path / "runs" / "vit", VIT, seed=7)
    list(measure(workbench, workbench.run("vit"), ["blur"], FEW))
    assert len(passes) == 10


def test_what_cannot_be_measured_is_named(workbench, put_pictures):
    def ask(source):
        list(measure(Workbench(workbench.roots, source, CPU), workbench.run("vit")))

    def pictures(name, classes):
        parts = ("train", "test")
        return put_pictures({f"{part}/{each}": 1 for part in parts for each in classes}, name)

    with pytest.raises(ValueError, match="'fog': choose noise, blur"):
        list(measure(workbench, workbench.run("vit"), ["fog"]))
    with pytest.raises(DataError, match="'vit' was trained on other classes"):
        ask(pictures("insects", ("ant", "bee")))
    broken = pictures("broken", CLASSES)
    (broken / "test" / "cat" / "broken.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"broken\.png"):
        ask(broken)


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
