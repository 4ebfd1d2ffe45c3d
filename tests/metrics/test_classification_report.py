"""Metrics, calibration and paired comparisons of run folders."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn import metrics as sk

from tests.metrics.test_calibration import draw_miscalibrated
from tests.support.factories import make_evaluation, make_run
from vitdemo import runs
from vitdemo.errors import RunError
from vitdemo.metrics import classification_report as metrics
from vitdemo.metrics.calibration import apply_temperature, compute_chance_calibration
from vitdemo.metrics.calibration_report import compute_calibration_report


@pytest.fixture(scope="module")
def a(tmp_path_factory):
    """Run that predicts five cats as dogs."""
    return make_run(tmp_path_factory.mktemp("runs") / "a")


def write_run(root, name, **changes):
    """Write a run `name` whose evaluation has these fields, and return it."""
    run = make_run(root / name)
    runs.write_evaluation(run.path, replace(run.evaluation, **changes))
    return runs.read_run(run.path)


def test_class_table_equals_scikit_learn_and_intervals_contain_it(a):
    report = metrics.compute_classification_report(a)
    probabilities, labels = a.evaluation.probabilities, a.evaluation.labels
    predicted, truth = probabilities.argmax(1), np.eye(10)[labels]
    for average, means, bounds in (
        ("macro", report.macro, report.macro_intervals),
        ("weighted", report.weighted, report.weighted_intervals),
    ):
        expected = sk.precision_recall_fscore_support(labels, predicted, average=average)[:3]
        assert [means[n] for n in ("precision", "recall", "f1")] == pytest.approx(expected)
        for name, score in (
            ("roc_auc", sk.roc_auc_score), ("average_precision", sk.average_precision_score)
        ):  # fmt: skip
            assert means[name] == pytest.approx(score(truth, probabilities, average=average))
        assert all(low < means[name] < high for name, (low, high) in bounds.items())
    for name, (low, high) in report.intervals.items():
        assert (low <= report.columns[name]).all() and (report.columns[name] <= high).all()
    assert report.accuracy_interval[0] < report.accuracy < report.accuracy_interval[1]
    assert set(report.columns) == set(metrics.METRIC_TITLES)
    assert report.support.tolist() == [20] * 10
    assert report.accuracy == 0.975
    assert report.worst_first[:2] == [3, 5]  # cat, dog
    assert [*report.top] == [2, 3, 5]
    assert np.all(np.diff([0.975, *(accuracy for accuracy, _ in report.top.values())]) >= 0)
    assert all(low <= accuracy <= high for accuracy, (low, high) in report.top.values())


def test_nan_errors_name_the_run(tmp_path):
    probabilities = make_evaluation(0).probabilities.copy()
    probabilities[7, 2] = np.nan
    bad = write_run(tmp_path, "bad", probabilities=probabilities)
    for compute in (
        metrics.compute_classification_report,
        compute_calibration_report,
        lambda run: metrics.compute_ranking_report(run, "cat"),
    ):
        with pytest.raises(RunError, match=r"'bad' cannot be used: NaN .* in 1 of 200 rows.*row 7"):
            compute(bad)


def test_ranking_has_both_curves_within_their_intervals(a):
    report = metrics.compute_ranking_report(a, "cat")
    assert report.name == "cat"
    assert report.area_interval[0] <= report.roc.area <= report.area_interval[1]
    low, high = report.precision_interval
    assert low <= report.precision_recall.area <= high


def test_classes_without_images_and_unknown_ones_are_named_in_errors(tmp_path, a):
    one = write_run(tmp_path, "one", labels=np.zeros(200, dtype=np.int64))
    with pytest.raises(RunError, match="has no images of 'truck'"):
        metrics.compute_ranking_report(one, "truck")
    with pytest.raises(RunError, match="no class 'fox': choose one of airplane"):
        metrics.compute_ranking_report(a, "fox")
    report = metrics.compute_ranking_report(one, "airplane")  # a single class has no ROC curve
    assert report.roc is None and np.isnan(report.area_interval).all()
    assert np.isnan(metrics.compute_classification_report(one).macro["roc_auc"])


def test_paired_test_matches_hand_worked_values(tmp_path, a):
    probabilities = make_evaluation(2).probabilities.copy()
    probabilities[60:80] = np.eye(10, dtype=np.float32)[3]  # all cats are correct
    comparison = metrics.compare_runs(write_run(tmp_path, "b", probabilities=probabilities), a)
    assert (comparison.overall.first_only, comparison.overall.second_only) == (5, 0)
    assert comparison.overall.p == pytest.approx(2 * 0.5**5)
    assert (comparison.by_class[3].first_only, comparison.by_class[3].n) == (5, 20)
    assert comparison.adjusted[3] == pytest.approx(10 * 2 * 0.5**5)  # corrected for ten classes
    assert comparison.adjusted[0] == 1
    low, high = comparison.overall.interval
    assert 0 < low < 5 / 200 < high
    assert "Only b is correct on 5 images" in comparison.sentence()
    assert "p = 0.062" in comparison.sentence()  # exact and not corrected
    assert "Only b is correct on 5 cats" in comparison.sentence(3)
    assert "p = 0.62)" in comparison.sentence(3)


@pytest.mark.parametrize(
    "changes", [{"fingerprint": "1" * 16}, {"labels": np.roll(make_evaluation(0).labels, 1)}]
)
def test_runs_tested_on_different_images_are_not_compared(tmp_path, a, changes):
    with pytest.raises(RunError, match="'a' and 'other' were tested on different images"):
        metrics.compare_runs(a, write_run(tmp_path, "other", **changes))


def test_temperature_is_fitted_on_the_validation_set_only(tmp_path, a):
    before = compute_calibration_report(a)
    assert before.scaled is None and before.accuracy == pytest.approx(0.975)
    error = abs(before.mean_confidence - 0.975)
    assert before.reliability.calibration_error == pytest.approx(error, abs=0.02)
    scores, labels = draw_miscalibrated(3, n=3000, c=10)
    run = write_run(tmp_path, "sure", validation_probabilities=scores, validation_labels=labels)
    scaled = compute_calibration_report(run).scaled
    assert scaled.temperature == pytest.approx(3, rel=0.1)
    assert scaled.num_validation_images == 3000
    assert scaled.reliability.correct.sum() == before.reliability.correct.sum()
    # The test set is calibrated differently, so its error increases.
    assert scaled.reliability.calibration_error > before.reliability.calibration_error
    # The error expected by chance depends on the probabilities.
    probabilities = run.evaluation.probabilities
    chance = compute_chance_calibration(apply_temperature(probabilities, scaled.temperature))
    assert scaled.chance.max_calibration_error == chance.max_calibration_error
    assert chance.max_calibration_error > 1.1 * before.chance.max_calibration_error
