"""A user's test set: matching classes, evaluation of models, and comparison with the original."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.support.factories import CLASSES, make_context, make_run, noise, timm_spec
from vitdemo import runs
from vitdemo.analyses.predictions import ImageQuery, load_test_images, select_by_query
from vitdemo.data.image_files import crop_visible_square
from vitdemo.errors import DataError, RunError
from vitdemo.metrics.classification_report import compute_classification_report
from vitdemo.metrics.error_selection import Filters
from vitdemo.metrics.intervals import wilson_interval
from vitdemo.test_sets.context import TestSetContext, find_test_set, load_test_image
from vitdemo.test_sets.evaluation import (
    compare_run,
    compare_test_sets,
    describe_independence,
    evaluate_models,
    list_pending_runs,
    make_test_set,
)

NAMES = ["Cat", "dog"]  # two of `CLASSES`, one in another case


@pytest.fixture
def context(tmp_path):
    """Context of "small" (32 px) and "large" (64 px), and of "other", which has two classes."""
    make_run(tmp_path / "small")
    make_run(tmp_path / "large", timm_spec(image_size=64), seed=1)
    make_run(tmp_path / "other", classes=("cat", "dog"), tested=make_pet_evaluation())
    return make_context(tmp_path)


def make_pet_evaluation() -> runs.Evaluation:
    labels = np.arange(20) % 2
    return runs.Evaluation(np.eye(2, dtype=np.float32)[labels], labels, "2" * 16, 0.001)


def make_squares(count: int = 6) -> list:
    return [crop_visible_square(noise(seed)) for seed in range(count)]


def add_tests(context, model: str = "small", count: int = 6):
    labels = [i % 2 for i in range(count)]
    tests = make_test_set(context, "Group 2", NAMES, make_squares(count), labels, model)
    context.test_sets.add(tests, for_all=True)
    return tests


def test_class_names_become_indices_of_the_preferred_models_classes(context):
    tests = add_tests(context)
    assert tests.classes == CLASSES
    cat, dog = CLASSES.index("cat"), CLASSES.index("dog")
    assert tests.labels.tolist() == [cat, dog] * 3
    assert tests.tested_classes == ["cat", "dog"]
    assert add_tests(context, "other").classes == ("cat", "dog")
    # Without a preferred model, the list of two of the three models is chosen.
    assert make_test_set(context, "x", NAMES, make_squares(2), [0, 1]).classes == CLASSES


def test_an_unknown_class_is_named_with_the_closest_models_classes(context):
    with pytest.raises(DataError, match=r"does not have pen\. Rename .* airplane, automobile"):
        make_test_set(context, "x", ["frog", "pen"], make_squares(2), [0, 1])


def test_predictions_are_those_of_explore_for_every_input_size(context):
    tests = add_tests(context)
    steps = list(evaluate_models(context, tests))
    assert (steps[-1].done, steps[-1].total) == (12, 12)  # two models, six images each
    assert list_pending_runs(context, tests) == []
    for name in ("small", "large"):
        run = context.find_run(name)
        found = tests.find_evaluation(run).probabilities
        explored = [context.predict(run, tests[i].image).probabilities for i in range(6)]
        np.testing.assert_allclose(found, explored, atol=1e-5)


def test_the_context_of_a_test_set_has_only_runs_evaluated_on_it(context):
    tests = add_tests(context)
    view = TestSetContext(context, tests)
    assert view.evaluated_runs() == []
    list(evaluate_models(context, tests))
    assert {run.name for run in view.evaluated_runs()} == {"small", "large"}
    run = view.find_run("small")
    assert len(run.evaluation.labels) == 6
    assert len(context.find_run("small").evaluation.labels) == 200  # unchanged
    # The original test set is limited to the classes of the user's test set: 20 cats, 20 dogs.
    assert len(view.find_run("small (original test set)").evaluation.labels) == 40
    report = view.cache.call(compute_classification_report, run)
    assert report.support.sum() == 6
    assert view.cache.call(compute_classification_report, context.find_run("small")).support[0]
    assert view.load_model(run) is context.load_model(context.find_run("small"))


def test_models_with_different_input_sizes_are_compared_on_the_same_images(context):
    tests = add_tests(context)
    list(evaluate_models(context, tests))
    view = TestSetContext(context, tests)
    query = ImageQuery("small", Filters("all"))
    found = select_by_query(view, query)
    assert {*found.predictions.names} == {"small", "large"}
    assert sorted(found.image_indices.tolist()) == list(range(6))
    images = load_test_images(view, view.find_run("large"), [4, 1])
    assert images.shape == (2, 96, 96, 3)  # thumbnails are at least 96 px wide


def test_a_model_that_fails_is_skipped_and_reported_at_the_end(context):
    tests = add_tests(context)
    weights = context.find_run("large").path / runs.WEIGHTS_FILE
    content = weights.read_bytes()
    weights.write_bytes(b"damaged")
    with pytest.raises(RunError):
        list(evaluate_models(context, tests))
    assert tests.find_evaluation(context.find_run("small")) is not None
    weights.write_bytes(content)
    assert [run.name for run in list_pending_runs(context, tests)] == ["large"]
    list(evaluate_models(context, tests))
    assert list_pending_runs(context, tests) == []


def test_accuracies_on_both_test_sets_have_intervals(context):
    tests = add_tests(context)
    run = context.find_run("small")
    tests.add_evaluation(run, np.eye(10, dtype=np.float32)[tests.labels], 0.001)
    (found,) = compare_test_sets(context, tests)
    # Five of the 20 cats are predicted as dogs, and all dogs correctly; other classes are not used.
    assert (found.accuracy, found.own_accuracy, found.own_count) == (1.0, 35 / 40, 40)
    low, high = found.difference_interval
    assert low < 0 < found.accuracy - found.own_accuracy < high
    with pytest.raises(RunError, match="2 classes, but the test set 'Group 2' has 10"):
        tests.add_evaluation(run, np.eye(2)[[0] * 6], 0.001)


def test_class_mix_alone_makes_no_difference(context):
    """600 cats and dogs of a model's own test set were reported as significantly harder."""
    cat, dog = CLASSES.index("cat"), CLASSES.index("dog")
    labels = np.repeat(np.arange(10), 100)
    predicted = labels.copy()
    predicted[np.flatnonzero(labels == cat)[:20]] = dog
    own = runs.Evaluation(np.eye(10, dtype=np.float32)[predicted], labels, "3" * 16, 0.001)
    run = make_run(context.roots[0] / "mixed", tested=own)
    chosen = np.concatenate([np.flatnonzero(labels == cat), np.flatnonzero(labels == dog)[:25]])
    mine = replace(own, probabilities=own.probabilities[chosen], labels=labels[chosen])
    found = compare_run(run, mine)
    assert found.accuracy == pytest.approx(105 / 125)
    assert found.own_accuracy == pytest.approx(0.8 * 0.8 + 0.2)  # weights 100 to 25
    low, high = found.difference_interval
    assert low < 0 < high


def test_bursts_are_grouped_and_widen_the_interval(context):
    squares = [square for square in make_squares(4) for _ in range(5)]
    tests = make_test_set(context, "x", NAMES, squares, np.repeat([0, 1], 10))
    context.test_sets.add(tests, for_all=True)
    assert describe_independence(tests) == []  # not evaluated yet
    list(evaluate_models(context, tests))
    assert tests.groups.tolist() == np.repeat(range(4), 5).tolist()
    run = context.find_run("small")
    correct = np.arange(20) < 15
    predicted = np.where(correct, tests.labels, 0)
    tests.add_evaluation(run, np.eye(10, dtype=np.float32)[predicted], 0.001)
    low, high = compare_run(run, tests.find_evaluation(run), tests.groups).interval
    assert (low, high) == pytest.approx(tuple(wilson_interval(3, 4)))  # 4 groups, not 20 images
    notes = describe_independence(tests)
    assert notes[0].startswith("20 images form 4 groups of near-identical images.")
    assert notes[1].startswith("The training images are not available")


def make_scene(seed: int) -> Image.Image:
    return noise(seed, (7, 7)).resize((64, 64), Image.Resampling.BICUBIC)


def test_images_of_the_dataset_are_found(tmp_path):
    for i in range(8):
        for part in ("train", "test"):
            folder = tmp_path / "data" / part / NAMES[i % 2].lower()
            folder.mkdir(parents=True, exist_ok=True)
            make_scene(i + 100 * (part == "test")).save(folder / f"{i}.png")
    make_run(tmp_path / "runs" / "pets", classes=("cat", "dog"), tested=make_pet_evaluation())
    context = make_context(tmp_path / "runs", data_root=tmp_path / "data")
    squares = [make_scene(seed) for seed in (0, 3, 100, 205)]  # the third is a test image
    tests = make_test_set(context, "x", NAMES, squares, [0, 1, 0, 1])
    list(evaluate_models(context, tests))
    assert tests.training_copies.tolist() == [True, True, False, False]
    assert tests.test_copies.tolist() == [False, False, True, False]
    *_, training_note, test_note = describe_independence(tests)
    assert training_note.startswith("2 of 4 images are also in the training")
    assert test_note.startswith("1 of 4 images are also in the original test set")


def test_validation_predictions_stay_for_temperature_scaling(context, tmp_path):
    run = context.find_run("small")
    labels = np.arange(30) % 10
    own = replace(
        run.evaluation,
        validation_probabilities=np.eye(10, dtype=np.float32)[labels],
        validation_labels=labels,
    )
    runs.write_evaluation(run.path, own)
    tests = add_tests(context)
    list(evaluate_models(context, tests))
    view = TestSetContext(context, tests)
    assert view.find_run("small").evaluation.validation_labels.tolist() == labels.tolist()
    assert view.find_run("large").evaluation.validation_labels is None


def test_a_test_set_belongs_to_its_session_and_its_images_are_deleted(tmp_path):
    make_run(tmp_path / "small")
    session = ["one"]
    context = make_context(tmp_path)
    context.sessions.get_id = lambda: session[0]
    tests = make_test_set(context, "mine", NAMES, make_squares(2), [0, 1])
    context.test_sets.add(tests, for_all=False)
    folder = Path(tests._files[0][0]).parent
    assert load_test_image(context, 1, tests.id).label == "dog"
    session[0] = "two"
    assert context.test_sets.list() == []
    for wanted in (tests.name, tests.id):
        with pytest.raises(RunError, match=f"'{wanted}' no longer exists"):
            find_test_set(context, wanted)
    with pytest.raises(RunError, match="no longer exists"):
        load_test_image(context, 1, tests.id)
    assert folder.is_dir()
    context.test_sets.discard(tests.id)
    del tests
    assert not folder.exists()
