"""From run folders to figures: their metrics, their calibration and how two of them compare."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn import metrics as sk

from tests.factories import make_evaluation, make_run
from tests.test_metrics_calibration import draw_miscalibrated
from vitdemo import runs
from vitdemo.errors import RunError
from vitdemo.metrics import classification_report as metrics
from vitdemo.metrics.calibration import apply_temperature, compute_chance_calibration
from vitdemo.metrics.calibration_report import compute_calibration_report


@pytest.fixture(scope="module")
def a(tmp_path_factory):
    """A run of which five cats are called dogs."""
    return make_run(tmp_path_factory.mktemp("runs") / "a")


def write_run(root, name, **changes):
    """A run `name` whose evaluation has these fields in place of its own."""
    run = make_run(root / name)
    runs.write_evaluation(run.path, replace(run.evaluation, **changes))
    return runs.read_run(run.path)


def test_class_table_equals_scikit_learn_and_intervals_contain_it(a):
    table = metrics.compute_classification_report(a)
    found = a.evaluation
    predicted, truth = found.probabilities.argmax(1), np.eye(10)[found.labels]
    for average, means, spread in (
        ("macro", table.macro, table.macro_intervals),
        ("weighted", table.weighted, table.weighted_intervals),
    ):
        wanted = sk.precision_recall_fscore_support(found.labels, predicted, average=average)[:3]
        assert [means[n] for n in ("precision", "recall", "f1")] == pytest.approx(wanted)
        for name, score in (
            ("roc_auc", sk.roc_auc_score), ("average_precision", sk.average_precision_score)
        ):  # fmt: skip
            assert means[name] == pytest.approx(score(truth, found.probabilities, average=average))
        assert all(low < means[name] < high for name, (low, high) in spread.items())
    for name, (low, high) in table.intervals.items():
        assert (low <= table.columns[name]).all() and (table.columns[name] <= high).all()
    assert table.accuracy_interval[0] < table.accuracy < table.accuracy_interval[1]
    assert set(table.columns) == set(metrics.METRIC_NAMES)
    assert table.support.tolist() == [20] * 10
    assert table.accuracy == 0.975
    assert table.worst_first[:2] == [3, 5]  # cat, dog
    assert [top.k for top in table.top] == [1, 2, 3, 5] and table.top[0].accuracy == 0.975
    assert np.all(np.diff([top.accuracy for top in table.top]) >= 0)
    assert all(top.interval[0] <= top.accuracy <= top.interval[1] for top in table.top)


def test_nan_errors_name_the_run(tmp_path):
    broken = make_evaluation(0).probabilities.copy()
    broken[7, 2] = np.nan
    bad = write_run(tmp_path, "bad", probabilities=broken)
    for ask in (
        metrics.compute_classification_report,
        compute_calibration_report,
        lambda run: metrics.compute_ranking_report(run, "cat"),
    ):
        with pytest.raises(RunError, match=r"'bad' cannot be used: NaN .* in 1 of 200 rows.*row 7"):
            ask(bad)


def test_ranking_has_both_curves_within_their_intervals(a):
    found = metrics.compute_ranking_report(a, "cat")
    assert found.name == "cat"
    assert found.area_interval[0] <= found.roc.area <= found.area_interval[1]
    low, high = found.precision_interval
    assert low <= found.precision_recall.area <= high


def test_classes_without_images_and_unknown_ones_are_named_in_errors(tmp_path, a):
    one = write_run(tmp_path, "one", labels=np.zeros(200, dtype=np.int64))
    with pytest.raises(RunError, match="has no images of 'truck'"):
        metrics.compute_ranking_report(one, "truck")
    with pytest.raises(RunError, match="no class 'fox': choose one of airplane"):
        metrics.compute_ranking_report(a, "fox")
    found = metrics.compute_ranking_report(one, "airplane")  # the only class has no ROC curve
    assert found.roc is None and np.isnan(found.area_interval).all()
    assert np.isnan(metrics.compute_classification_report(one).macro["roc_auc"])


def test_paired_test_matches_hand_worked_values(tmp_path, a):
    predicted = make_evaluation(2).probabilities.copy()
    predicted[60:80] = np.eye(10, dtype=np.float32)[3]  # no cat is called a dog
    found = metrics.compare_runs(write_run(tmp_path, "b", probabilities=predicted), a)
    assert (found.overall.first_only, found.overall.second_only) == (5, 0)
    assert found.overall.p == pytest.approx(2 * 0.5**5)
    assert (found.by_class[3].first_only, found.by_class[3].n) == (5, 20)
    assert found.comparisons == 11  # all pictures, and ten classes
    assert found.adjusted[3] == pytest.approx(11 * 2 * 0.5**5)
    assert found.adjusted_overall == pytest.approx(11 * 2 * 0.5**5)
    assert found.adjusted[0] == 1
    low, high = found.overall.interval
    assert 0 < low < 5 / 200 < high
    assert "Only b is correct on 5 images" in found.sentence() and "p = 0.69" in found.sentence()
    assert "Only b is correct on 5 cats" in found.sentence(3) and "p = 0.69" in found.sentence(3)


@pytest.mark.parametrize(
    "changes", [{"fingerprint": "1" * 16}, {"labels": np.roll(make_evaluation(0).labels, 1)}]
)
def test_runs_tested_on_different_images_are_not_compared(tmp_path, a, changes):
    with pytest.raises(RunError, match="'a' and 'other' were tested on different images"):
        metrics.compare_runs(a, write_run(tmp_path, "other", **changes))


def test_temperature_scaling_requires_validation_predictions(a):
    found = compute_calibration_report(a)
    assert found.scaled is None
    assert found.accuracy == pytest.approx(0.975)
    assert found.reliability.calibration_error == pytest.approx(
        abs(found.mean_confidence - 0.975), abs=0.02
    )


def test_temperature_is_fitted_on_the_validation_set_only(tmp_path):
    sure, labels = draw_miscalibrated(3, n=3000, c=10)  # three times too sure
    run = write_run(tmp_path, "sure", validation_probabilities=sure, validation_labels=labels)
    found = compute_calibration_report(run)
    assert found.scaled.temperature == pytest.approx(3, rel=0.1)
    assert found.scaled.num_validation_images == 3000
    assert np.array_equal(found.scaled.reliability.correct.sum(), found.reliability.correct.sum())
    assert (
        found.scaled.reliability.calibration_error > found.reliability.calibration_error
    )  # of a test set unlike it


def test_chance_range_after_scaling_uses_scaled_probabilities(tmp_path):
    sure, labels = draw_miscalibrated(0.5, n=3000, c=10)  # half as confident as it should be
    run = write_run(
        tmp_path,
        "unsure",
        probabilities=sure,
        labels=labels,
        validation_probabilities=sure,
        validation_labels=labels,
    )
    found = compute_calibration_report(run)
    scaled = apply_temperature(run.evaluation.probabilities, found.scaled.temperature)
    assert (
        found.chance.max_calibration_error
        == compute_chance_calibration(run.evaluation.probabilities).max_calibration_error
    )
    assert (
        found.scaled.chance.max_calibration_error
        == compute_chance_calibration(scaled).max_calibration_error
    )
    assert (
        abs(found.scaled.chance.max_calibration_error / found.chance.max_calibration_error - 1)
        > 0.1
    )
