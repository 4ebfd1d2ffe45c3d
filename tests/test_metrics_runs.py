"""From run folders to figures: their metrics, their calibration and how two of them compare."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn import metrics as sk

from tests.making import evaluation, make_run
from tests.test_metrics_calibration import drawn_from
from vitdemo import runs
from vitdemo.errors import RunError
from vitdemo.metrics import tested_runs as metrics
from vitdemo.metrics.calibrated_runs import calibration
from vitdemo.metrics.calibration import chance, with_temperature


@pytest.fixture(scope="module")
def a(tmp_path_factory):
    """A run of which five cats are called dogs."""
    return make_run(tmp_path_factory.mktemp("runs") / "a")


def put(root, name, **changes):
    """A run `name` whose evaluation has these fields in place of its own."""
    run = make_run(root / name)
    runs.write_evaluation(run.path, replace(run.evaluation, **changes))
    return runs.read_run(run.path)


def test_the_table_equals_scikit_learn_and_every_interval_holds_its_metric(a):
    table = metrics.class_table(a)
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
    assert set(table.columns) == set(metrics.COLUMNS)
    assert table.support.tolist() == [20] * 10
    assert table.accuracy == 0.975
    assert table.worst_first[:2] == [3, 5]  # cat, dog
    assert [top.k for top in table.top] == [1, 2, 3, 5] and table.top[0].share == 0.975
    assert np.all(np.diff([top.share for top in table.top]) >= 0)
    assert all(top.interval[0] <= top.share <= top.interval[1] for top in table.top)


def test_nan_is_refused_by_name(tmp_path):
    broken = evaluation(0).probabilities.copy()
    broken[7, 2] = np.nan
    bad = put(tmp_path, "bad", probabilities=broken)
    for ask in (metrics.class_table, calibration, lambda run: metrics.ranking(run, "cat")):
        with pytest.raises(RunError, match=r"'bad' cannot be used: NaN .* in 1 of 200 rows.*row 7"):
            ask(bad)


def test_ranking_has_both_curves_with_intervals(a):
    found = metrics.ranking(a, "cat")
    assert found.name == "cat"
    assert found.area_interval[0] <= found.roc.area <= found.area_interval[1]
    low, high = found.precision_interval
    assert low <= found.precision_recall.area <= high


def test_a_class_without_pictures_or_of_another_run_is_named(tmp_path, a):
    one = put(tmp_path, "one", labels=np.zeros(200, dtype=np.int64))
    with pytest.raises(RunError, match="has no images of 'truck'"):
        metrics.ranking(one, "truck")
    with pytest.raises(RunError, match="no class 'fox': choose one of airplane"):
        metrics.ranking(a, "fox")
    found = metrics.ranking(one, "airplane")  # the only class has no ROC curve
    assert found.roc is None and np.isnan(found.area_interval).all()
    assert np.isnan(metrics.class_table(one).macro["roc_auc"])


def test_two_runs_by_hand(tmp_path, a):
    predicted = evaluation(2).probabilities.copy()
    predicted[60:80] = np.eye(10, dtype=np.float32)[3]  # no cat is called a dog
    found = metrics.paired_test(put(tmp_path, "b", probabilities=predicted), a)
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
    "changes", [{"fingerprint": "1" * 16}, {"labels": np.roll(evaluation(0).labels, 1)}]
)
def test_runs_tested_on_different_pictures_are_not_compared(tmp_path, a, changes):
    with pytest.raises(RunError, match="'a' and 'other' were tested on different images"):
        metrics.paired_test(a, put(tmp_path, "other", **changes))


def test_without_validation_answers_there_is_no_temperature(a):
    found = calibration(a)
    assert found.scaled is None
    assert found.accuracy == pytest.approx(0.975)
    assert found.before.error == pytest.approx(abs(found.mean_confidence - 0.975), abs=0.02)


def test_the_temperature_is_of_the_validation_pictures_alone(tmp_path):
    sure, labels = drawn_from(3, n=3000, c=10)  # three times too sure
    run = put(tmp_path, "sure", validation_probabilities=sure, validation_labels=labels)
    found = calibration(run)
    assert found.scaled.temperature == pytest.approx(3, rel=0.1)
    assert found.scaled.validation_pictures == 3000
    assert np.array_equal(found.scaled.reliability.right.sum(), found.before.right.sum())
    assert found.scaled.reliability.error > found.before.error  # of a test set unlike it


def test_the_chance_after_scaling_is_of_the_scaled_probabilities(tmp_path):
    sure, labels = drawn_from(0.5, n=3000, c=10)  # half as confident as it should be
    run = put(
        tmp_path,
        "unsure",
        probabilities=sure,
        labels=labels,
        validation_probabilities=sure,
        validation_labels=labels,
    )
    found = calibration(run)
    scaled = with_temperature(run.evaluation.probabilities, found.scaled.temperature)
    assert found.chance.error == chance(run.evaluation.probabilities).error
    assert found.scaled.chance.error == chance(scaled).error
    assert abs(found.scaled.chance.error / found.chance.error - 1) > 0.1
