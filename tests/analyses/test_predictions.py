"""Selection of images by predictions: compatible runs, and the dataset of the images."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from tests.support.factories import INSECT_CLASSES, VIT, make_context, make_run
from vitdemo import data, runs
from vitdemo.analyses.predictions import (
    ImageQuery,
    available_predictions,
    comparable_predictions,
    count_kinds,
    load_test_images,
    select_by_query,
)
from vitdemo.errors import DataError, RunError
from vitdemo.metrics.error_selection import IMAGE_FILTERS, Filters

ANT_AS_BEE = Filters("all", true=0, predicted=1)


@pytest.fixture
def changed(tested_runs, tmp_path):
    """AppContext factory: the arguments replace fields of the second run's evaluation."""

    def change(**fields):
        root = shutil.copytree(tested_runs[0], tmp_path / "runs", dirs_exist_ok=True)
        evaluation = runs.read_evaluation(root / "second")
        runs.write_evaluation(root / "second", replace(evaluation, **fields))
        return make_context(root, data_root=tested_runs[1])

    return change


def test_runs_on_the_same_images_are_grouped(tested):
    group = comparable_predictions(tested, "second")
    assert (group.names, group.classes) == (["first", "second"], INSECT_CLASSES)
    assert group.exclusion_messages == ()
    assert group.probabilities.shape == (2, 110, 3)
    assert comparable_predictions(tested, "second").runs is group.runs  # compared once
    assert group.confusion_matrix("first").tolist() == [[60, 10, 0], [5, 25, 0], [4, 6, 0]]


def test_runs_on_different_images_are_excluded_with_a_reason(changed, tested_runs):
    labels = runs.read_evaluation(tested_runs[0] / "first").labels
    assert comparable_predictions(changed(labels=labels[::-1].copy()), "first").names == ["first"]
    context = changed(fingerprint="another")
    group = comparable_predictions(context, "first")
    assert group.names == ["first"]
    (reason,) = group.exclusion_messages
    assert reason.startswith("second is not compared with first: it was tested on different images")
    with pytest.raises(DataError, match="'second' was tested on a different dataset"):
        load_test_images(context, context.find_run("second"), [0])


def test_every_model_contains_runs_with_weights_and_queried_runs(tested_runs, tmp_path):
    root = shutil.copytree(tested_runs[0], tmp_path / "runs")
    shutil.copytree(root / "second", root / "third")  # the same predictions
    for name in ("first", "second"):
        (root / name / runs.WEIGHTS_FILE).unlink()
    context = make_context(root, data_root=tested_runs[1])
    assert [run.name for run in context.evaluated_runs()] == ["third", "first", "second"]
    assert available_predictions(context, "first").names == ["third", "first"]
    (message,) = available_predictions(context, "first").exclusion_messages
    assert message.endswith("weights are not available: second.")
    third_group = available_predictions(context, "third")  # a single run allows no comparison
    assert third_group.names == ["third", "first", "second"]
    assert available_predictions(context, "first", "second").names == ["third", "first", "second"]
    group = available_predictions(context, "second")
    complete = comparable_predictions(context, "second")
    assert (group.probabilities[0] == complete.probabilities[0]).all()
    # "third" makes the same predictions, so "second" is never the only correct run.
    assert count_kinds(context, ImageQuery("second", Filters("errors")))["only_right"] == 0
    assert count_kinds(context, ImageQuery("first", Filters("errors")))["only_right"] > 0
    (root / "third" / runs.WEIGHTS_FILE).unlink()  # without any weights, every run counts
    assert available_predictions(context, "first").names == ["first", "second", "third"]


def test_at_most_three_runs_without_weights_are_named(tested_runs, tmp_path):
    root = shutil.copytree(tested_runs[0], tmp_path / "runs")
    for name in ("third", "a", "b", "c", "d"):
        shutil.copytree(root / "second", root / name)
        if name != "third":
            (root / name / runs.WEIGHTS_FILE).unlink()
    group = available_predictions(make_context(root, data_root=tested_runs[1]), "first")
    (message,) = group.exclusion_messages
    assert message.endswith("weights are not available: a, b, c and 1 more.")


def test_runs_with_other_classes_are_not_compared(tested_runs):
    root, folder = tested_runs
    other = root.parent / "strangers"
    make_run(other / "third", classes=tuple("xyz"), tested=runs.read_evaluation(root / "first"))
    group = comparable_predictions(make_context(root, other, data_root=folder), "third")
    assert group.names == ["third"]
    reasons = [message.split(":")[1] for message in group.exclusion_messages]
    assert reasons == [" it has different classes."] * 2


def test_run_with_nan_is_rejected_and_others_stay_available(changed, tested_runs):
    probabilities = runs.read_evaluation(tested_runs[0] / "second").probabilities
    probabilities[7] = np.nan
    context = changed(probabilities=probabilities)
    with pytest.raises(RunError, match=r"'second' cannot be used: NaN or infinite.*row 7"):
        comparable_predictions(context, "second")
    group = comparable_predictions(context, "first")
    assert group.names == ["first"]
    assert "NaN" in group.exclusion_messages[0]


def test_images_of_the_second_model_follow_the_first(tested):
    first = select_by_query(tested, ImageQuery("first", ANT_AS_BEE)).image_indices.tolist()
    second = select_by_query(tested, ImageQuery("second", ANT_AS_BEE)).image_indices.tolist()
    both = select_by_query(tested, ImageQuery("first", ANT_AS_BEE, other_run="second"))
    assert both.image_indices.tolist() == first + [n for n in second if n not in first]
    assert (len(first), len(second)) == (10, 4)


def test_counts_of_each_kind_follow_the_other_filters(tested):
    counts = count_kinds(tested, ImageQuery("first", Filters()))
    assert list(counts) == list(IMAGE_FILTERS)
    assert (counts["errors"], counts["right"], counts["all"]) == (25, 85, 110)
    group = comparable_predictions(tested, "first")
    correct = group.probabilities.argmax(2) == group.labels  # (M, N)
    assert counts["all_wrong"] == int((~correct).all(0).sum())
    assert counts["only_right"] == int((correct[0] & ~correct[1]).sum())
    counts = count_kinds(tested, ImageQuery("first", Filters(true=2)))
    assert (counts["errors"], counts["right"], counts["all"]) == (10, 0, 10)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (ImageQuery("first", Filters(true=3)), "no true class 3: choose 0 to 2"),
        (ImageQuery("first", Filters(), "nobody"), "'nobody' was not tested on the same images"),
        (ImageQuery("nobody", Filters()), "There is no run 'nobody'"),
    ],
)
def test_invalid_queries_raise_run_errors(tested, query, message):
    with pytest.raises(RunError, match=message):
        select_by_query(tested, query)


def test_images_match_the_evaluation_of_the_run(tested, tested_runs):
    run = tested.find_run("first")
    images = load_test_images(tested, run, [109, 0])
    expected = data.open_dataset(tested_runs[1]).load("test", VIT.image_size).images
    assert np.array_equal(images, expected[[109, 0]].permute(0, 2, 3, 1).numpy())
    assert load_test_images(tested, run, []).shape == (0, 16, 16, 3)


def test_without_the_dataset_only_the_images_are_missing(tested_runs, put_pictures, tmp_path):
    def show(source):
        context = make_context(tested_runs[0], data_root=source)
        assert len(select_by_query(context, ImageQuery("first", ANT_AS_BEE)).image_indices) == 10
        load_test_images(context, context.find_run("first"), [0])

    with pytest.raises(DataError, match=r"python train\.py download"):
        show(tmp_path / "none")
    with pytest.raises(DataError, match="a different dataset"):  # other classes
        show(put_pictures({f"{part}/{name}": 1 for part in ("train", "test") for name in "ab"}))


def test_cifar10_images_are_not_resized(cifar10, tmp_path):
    test = cifar10.load("test")
    probabilities = np.eye(10, dtype=np.float32)[test.labels]
    fingerprint = data.compute_fingerprint(test, cifar10.classes)
    evaluation = runs.Evaluation(probabilities, test.labels.numpy(), fingerprint, 0.001)
    run = make_run(tmp_path / "vit", tested=evaluation)  # input size of 16 pixels
    context = make_context(tmp_path, data_root=cifar10.root)
    images = load_test_images(context, run, [9999])
    assert np.array_equal(images[0], test.images[9999].permute(1, 2, 0).numpy())
