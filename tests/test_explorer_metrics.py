"""`explorer.metrics` and `explorer.calibration`: from run folders to figures, and what is kept."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn import metrics as sk

from tests.making import evaluation, make_run
from vitdemo import runs
from vitdemo.errors import RunError
from vitdemo.explorer import metrics
from vitdemo.explorer.calibration import calibration
from vitdemo.workbench import Workbench

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The runs "a" and "b"; of a's cats five are called dogs, of b's none."""
    root = tmp_path_factory.mktemp("runs")
    make_run(root / "a")
    make_run(root / "b", seed=1)
    right = evaluation(2)
    predicted = right.probabilities.copy()
    predicted[right.labels == 3] = np.eye(10, dtype=np.float32)[3]
    runs.write_evaluation(root / "b", replace(right, probabilities=predicted))
    return root


@pytest.fixture(scope="module")
def workbench(root):
    return Workbench([root], None, CPU)


def put(root, name, **changes):
    """An workbench over one run `name` whose evaluation has these fields in place of its own."""
    run = make_run(root / name)
    runs.write_evaluation(run.path, replace(run.evaluation, **changes))
    return Workbench([root], None, CPU)


# --- the table -----------------------------------------------------------------------------------


def test_the_table_equals_scikit_learn(workbench):
    table = metrics.class_table(workbench, "a")
    found = workbench.run("a").evaluation
    predicted, truth = found.probabilities.argmax(1), np.eye(10)[found.labels]
    for average in ("macro", "weighted"):
        wanted = sk.precision_recall_fscore_support(found.labels, predicted, average=average)[:3]
        means = getattr(table, average)
        assert [means[n] for n in ("precision", "recall", "f1")] == pytest.approx(wanted)
        for name, score in (
            ("roc_auc", sk.roc_auc_score), ("average_precision", sk.average_precision_score)
        ):  # fmt: skip
            assert means[name] == pytest.approx(score(truth, found.probabilities, average=average))
    assert set(table.columns) == set(metrics.COLUMNS)
    assert table.support.tolist() == [20] * 10
    assert table.accuracy == 0.975


def test_every_interval_holds_its_metric(workbench):
    table = metrics.class_table(workbench, "a")
    for name, (low, high) in table.intervals.items():
        assert (low <= table.columns[name]).all() and (table.columns[name] <= high).all()
        for means, spread in (
            (table.macro, table.macro_intervals), (table.weighted, table.weighted_intervals)
        ):  # fmt: skip
            assert spread[name][0] < means[name] < spread[name][1]
    assert table.accuracy_interval[0] < 0.975 < table.accuracy_interval[1]


def test_the_worst_class_comes_first(workbench):
    assert metrics.class_table(workbench, "a").worst_first[:2] == [3, 5]  # cat, dog


def test_top_k_grows_to_one(workbench):
    top = metrics.class_table(workbench, "a").top
    assert [found.k for found in top] == [1, 2, 3, 5]
    assert top[0].share == 0.975
    assert np.all(np.diff([found.share for found in top]) >= 0)
    assert all(found.interval[0] <= found.share <= found.interval[1] for found in top)


def test_nan_is_refused_by_name(tmp_path):
    broken = evaluation(0).probabilities.copy()
    broken[7, 2] = np.nan
    workbench = put(tmp_path, "bad", probabilities=broken)
    for ask in (metrics.class_table, calibration, lambda e, n: metrics.ranking(e, n, "cat")):
        with pytest.raises(RunError, match=r"'bad' cannot be used: NaN .* in 1 of 200 rows.*row 7"):
            ask(workbench, "bad")


# --- curves --------------------------------------------------------------------------------------


def test_ranking_has_both_curves_with_intervals(workbench):
    found = metrics.ranking(workbench, "a", "cat")
    assert found.name == "cat"
    assert found.area_interval[0] <= found.roc.area <= found.area_interval[1]
    low, high = found.precision_interval
    assert low <= found.precision_recall.area <= high


def test_a_class_without_pictures_or_of_another_run_is_named(tmp_path, workbench):
    labels = evaluation(0).labels.copy()
    labels[labels == 9] = 0
    with pytest.raises(RunError, match="tested on no picture of 'truck'"):
        metrics.ranking(put(tmp_path, "few", labels=labels), "few", "truck")
    with pytest.raises(RunError, match="knows no class 'fox': it has airplane"):
        metrics.ranking(workbench, "a", "fox")


def test_pictures_of_one_class_have_no_roc_curve(tmp_path):
    workbench = put(tmp_path, "one", labels=np.zeros(200, dtype=np.int64))
    found = metrics.ranking(workbench, "one", "airplane")
    assert found.roc is None and np.isnan(found.area_interval).all()
    assert np.isnan(metrics.class_table(workbench, "one").macro["roc_auc"])


# --- two runs ------------------------------------------------------------------------------------


def test_two_runs_by_hand(workbench):
    found = metrics.paired_test(workbench, "b", "a")
    assert (found.overall.first_only, found.overall.second_only) == (5, 0)
    assert found.overall.p == pytest.approx(2 * 0.5**5)
    assert (found.by_class[3].first_only, found.by_class[3].n) == (5, 20)
    assert found.comparisons == 11  # all pictures, and ten classes
    assert found.adjusted[3] == pytest.approx(11 * 2 * 0.5**5)
    assert found.adjusted_overall == pytest.approx(11 * 2 * 0.5**5)
    assert found.adjusted[0] == 1
    low, high = found.overall.interval
    assert 0 < low < 5 / 200 < high
    assert found.sentence(3) == (
        "b is right on 5 cats that a gets wrong, 0 the other way round: could be chance (p = 0.69)."
    )
    assert found.sentence(0) == "b and a are right on the same airplanes: no difference."
    assert len(found.sentences()) == 11


@pytest.mark.parametrize(
    "changes",
    [
        {"fingerprint": "1" * 16},
        {"labels": np.roll(evaluation(0).labels, 1)},
    ],
)
def test_runs_tested_on_different_pictures_are_not_compared(tmp_path, changes):
    make_run(tmp_path / "a")
    workbench = put(tmp_path, "other", **changes)
    with pytest.raises(RunError, match="'a' and 'other' were tested on different pictures"):
        metrics.paired_test(workbench, "a", "other")


# --- calibration ---------------------------------------------------------------------------------


def test_without_validation_answers_there_is_no_temperature(workbench):
    found = calibration(workbench, "a")
    assert found.scaled is None
    assert found.accuracy == pytest.approx(0.975)
    assert found.before.error == pytest.approx(abs(found.mean_confidence - 0.975), abs=0.02)


def test_the_temperature_is_of_the_validation_pictures_alone(tmp_path):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(3000, 10))
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = np.array([rng.choice(10, p=row) for row in shares])
    sure = np.exp(3 * logits) / np.exp(3 * logits).sum(1, keepdims=True)  # three times too sure
    workbench = put(tmp_path, "sure", validation_probabilities=sure, validation_labels=labels)
    found = calibration(workbench, "sure")
    assert found.scaled.temperature == pytest.approx(3, rel=0.1)
    assert found.scaled.validation_pictures == 3000
    assert np.array_equal(found.scaled.reliability.right.sum(), found.before.right.sum())
    assert found.scaled.reliability.error > found.before.error  # of a test set unlike it


# --- memory --------------------------------------------------------------------------------------


def test_answers_are_kept_until_the_files_change(root, tmp_path):
    folder = shutil.copytree(root / "a", tmp_path / "a")
    workbench = Workbench([tmp_path], None, CPU)
    first = metrics.class_table(workbench, "a")
    assert metrics.class_table(workbench, "a") is first
    found = runs.read_evaluation(folder)
    runs.write_evaluation(folder, replace(found, labels=np.roll(found.labels, 20)))
    assert metrics.class_table(workbench, "a").accuracy < 0.2
