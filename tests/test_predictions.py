"""Selection of images by predictions: compatible runs, and the dataset of the images."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.making import INSECTS, VIT, make_run
from vitdemo import data, runs
from vitdemo.errors import DataError, RunError
from vitdemo.metrics.errors import KINDS, Filters
from vitdemo.predictions import Query, counts, every_model, find, pictures, predictions
from vitdemo.workbench import Workbench

CPU = torch.device("cpu")
ANT_AS_BEE = Filters("all", true=0, predicted=1)


@pytest.fixture(scope="module")
def workbench(tested_runs):
    return Workbench([tested_runs[0]], tested_runs[1], CPU)


@pytest.fixture
def changed(tested_runs, tmp_path):
    """changed(**fields) -> an workbench where those of the second run's evaluation are others."""

    def change(**fields):
        root = shutil.copytree(tested_runs[0], tmp_path / "runs")
        kept = runs.read_evaluation(root / "second")
        runs.write_evaluation(root / "second", replace(kept, **fields))
        return Workbench([root], tested_runs[1], CPU)

    return change


def test_runs_on_the_same_images_are_grouped(workbench):
    group = predictions(workbench, "second")
    assert (group.names, group.classes, group.left_out) == (["first", "second"], INSECTS, ())
    assert group.probabilities.shape == (2, 110, 3)
    assert predictions(workbench, "second").runs is group.runs  # compared once
    assert group.confusion("first").tolist() == [[60, 10, 0], [5, 25, 0], [4, 6, 0]]


def test_runs_on_different_images_are_excluded_with_a_reason(changed):
    workbench = changed(fingerprint="another")
    group = predictions(workbench, "first")
    assert group.names == ["first"]
    (told,) = group.left_out
    assert told.startswith("second is not compared with first: it was tested on different images")
    with pytest.raises(DataError, match="'second' was tested on a different dataset"):
        pictures(workbench, workbench.run("second"), [0])


def test_different_labels_are_excluded_despite_equal_fingerprints(changed, tested_runs):
    labels = runs.read_evaluation(tested_runs[0] / "first").labels
    assert predictions(changed(labels=labels[::-1].copy()), "first").names == ["first"]


def test_every_model_contains_runs_with_weights_and_queried_runs(tested_runs, tmp_path):
    root = shutil.copytree(tested_runs[0], tmp_path / "runs")
    shutil.copytree(root / "second", root / "third")  # which answers the same
    for name in ("first", "second"):
        (root / name / runs.WEIGHTS).unlink()
    three = Workbench([root], tested_runs[1], CPU)
    assert [run.name for run in three.evaluated_runs()] == ["third", "first", "second"]
    assert every_model(three, "first").names == ["third", "first"]
    (told,) = every_model(three, "first").left_out
    assert told.endswith("weights are not available: second.")
    alone = every_model(three, "third")  # it would say nothing
    assert alone.names == ["third", "first", "second"]
    assert every_model(three, "first", "second").names == ["third", "first", "second"]
    group = every_model(three, "second")
    assert (group.probabilities[0] == predictions(three, "second").probabilities[0]).all()
    # "second" is right alone nowhere, for "third" says the same; against "first" it would be.
    assert counts(three, Query("second", Filters("errors")))["only_right"] == 0
    assert counts(three, Query("first", Filters("errors")))["only_right"] > 0
    (root / "third" / runs.WEIGHTS).unlink()  # without any weights every run has a say
    assert every_model(three, "first").names == ["first", "second", "third"]


def test_at_most_three_runs_without_weights_are_named(tested_runs, tmp_path):
    root = shutil.copytree(tested_runs[0], tmp_path / "runs")
    for name in ("third", "a", "b", "c", "d"):
        shutil.copytree(root / "second", root / name)
        if name != "third":
            (root / name / runs.WEIGHTS).unlink()
    (told,) = every_model(Workbench([root], tested_runs[1], CPU), "first").left_out
    assert told.endswith("weights are not available: a, b, c and 1 more.")


def test_other_classes_are_never_compared(tested_runs):
    root, folder = tested_runs
    other = root.parent / "strangers"
    make_run(other / "third", classes=tuple("xyz"), tested=runs.read_evaluation(root / "first"))
    group = predictions(Workbench([root, other], folder, CPU), "third")
    assert group.names == ["third"]
    told = [sentence.split(":")[1] for sentence in group.left_out]
    assert told == [" it has different classes."] * 2


def test_nan_is_refused_by_name_and_hides_no_other_run(changed, tested_runs):
    broken = runs.read_evaluation(tested_runs[0] / "second").probabilities
    broken[7] = np.nan
    workbench = changed(probabilities=broken)
    with pytest.raises(RunError, match=r"'second' cannot be used: NaN or infinite.*row 7"):
        predictions(workbench, "second")
    group = predictions(workbench, "first")
    assert group.names == ["first"]
    assert "NaN" in group.left_out[0]


def test_images_of_the_second_model_follow_the_first(workbench):
    first = find(workbench, Query("first", ANT_AS_BEE)).numbers.tolist()
    second = find(workbench, Query("second", ANT_AS_BEE)).numbers.tolist()
    both = find(workbench, Query("first", ANT_AS_BEE, other="second"))
    assert both.numbers.tolist() == first + [n for n in second if n not in first]
    assert (both.own, both.others, both.shared) == (10, 4, len(set(first) & set(second)))


def test_counts_of_each_kind_follow_the_other_filters(workbench):
    found = counts(workbench, Query("first", Filters()))
    assert list(found) == list(KINDS)
    assert (found["errors"], found["right"], found["all"]) == (25, 85, 110)
    group = predictions(workbench, "first")
    right = group.probabilities.argmax(2) == group.labels  # (M, N)
    assert found["all_wrong"] == int((~right).all(0).sum())
    assert found["only_right"] == int((right[0] & ~right[1]).sum())
    found = counts(workbench, Query("first", Filters(true=2)))
    assert (found["errors"], found["right"], found["all"]) == (10, 0, 10)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (Query("first", Filters(true=3)), "no true class 3: choose 0 to 2"),
        (Query("first", Filters(), "nobody"), "'nobody' was not tested on the same images"),
        (Query("nobody", Filters()), "There is no run 'nobody'"),
    ],
)
def test_invalid_queries_raise_run_errors(workbench, query, message):
    with pytest.raises(RunError, match=message):
        find(workbench, query)


def test_images_match_the_evaluation_of_the_run(workbench, tested_runs):
    run = workbench.run("first")
    found = pictures(workbench, run, [109, 0])
    wanted = data.open_source(tested_runs[1]).load("test", VIT.image_size).images
    assert np.array_equal(found, wanted[[109, 0]].permute(0, 2, 3, 1).numpy())
    assert pictures(workbench, run, []).shape == (0, 16, 16, 3)


def test_without_the_dataset_only_the_images_are_missing(tested_runs, put_pictures, tmp_path):
    def show(source):
        workbench = Workbench([tested_runs[0]], source, CPU)
        assert len(find(workbench, Query("first", ANT_AS_BEE)).numbers) == 10
        pictures(workbench, workbench.run("first"), [0])

    with pytest.raises(DataError, match=r"python train\.py download"):
        show(tmp_path / "none")
    with pytest.raises(DataError, match="a different dataset"):  # of other classes
        show(put_pictures({f"{part}/{name}": 1 for part in ("train", "test") for name in "ab"}))


def test_cifar10_images_are_not_resized(cifar10, tmp_path):
    test = cifar10.load("test")
    shares = np.eye(10, dtype=np.float32)[test.labels]
    print_ = data.fingerprint(test, cifar10.classes)
    tested = runs.Evaluation(shares, test.labels.numpy(), print_, 0.001)
    run = make_run(tmp_path / "vit", tested=tested)  # of 16 pixels
    workbench = Workbench([tmp_path], cifar10.root, CPU)
    found = pictures(workbench, run, [9999])
    assert np.array_equal(found[0], test.images[9999].permute(1, 2, 0).numpy())
