"""Prediction sets compared with plain loops, and their coverage on simulated data."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from tests.metrics.test_calibration import draw_miscalibrated
from tests.support.factories import make_evaluation, make_run
from vitdemo import runs
from vitdemo.metrics.prediction_sets import (
    compute_set_report,
    count_covered,
    fit_threshold,
    read_threshold,
    select_classes,
)


def with_validation(tested, seed=1):
    other = make_evaluation(seed)
    return runs.Evaluation(
        tested.probabilities,
        tested.labels,
        tested.fingerprint,
        tested.seconds_per_image,
        other.probabilities,
        other.labels,
    )


def find_set_by_loops(calibration, labels, row, percent):
    """Return the classes whose score is at most the quantile of the scores, and the first class."""
    scores = sorted(1 - p[y] for p, y in zip(calibration.astype(np.float64), labels, strict=True))
    n = len(scores)
    quantile = scores[math.ceil((n + 1) * Fraction(percent, 100)) - 1]
    best = max(range(len(row)), key=lambda c: (row[c], -c))
    return {c for c in range(len(row)) if 1 - float(row[c]) <= quantile} | {best}


def test_the_rank_of_the_quantile_is_exact():
    for percent in (50, 90, 95, 99):
        for n in range(1, 500):
            assert count_covered(n, percent) == math.ceil((n + 1) * Fraction(percent, 100))


@pytest.mark.parametrize("percent", [80, 95])
def test_sets_equal_those_of_plain_loops(percent):
    probabilities, labels = draw_miscalibrated(1.7, n=400, c=6)
    threshold = fit_threshold(probabilities[:150], labels[:150], percent)
    found = select_classes(probabilities[150:], threshold)
    sizes = set()
    for row, selected in zip(probabilities[150:], found, strict=True):
        expected = find_set_by_loops(probabilities[:150], labels[:150], row, percent)
        assert {*np.flatnonzero(selected)} == expected
        sizes.add(len(expected))
    assert len(sizes) > 2


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_coverage_holds_on_average_also_for_miscalibrated_models(temperature):
    probabilities, labels = draw_miscalibrated(temperature, n=30_000)
    hits, count, n = 0, 0, 100
    for start in range(0, len(labels), 200):  # 150 draws of 100 calibration and 100 test images
        rows, truth = probabilities[start : start + 200], labels[start : start + 200]
        selected = select_classes(rows[n:], fit_threshold(rows[:n], truth[:n]))
        hits += selected[np.arange(n), truth[n:]].sum()
        count += n
    # The exact coverage is ceil(101 * 0.95) / 101 = 0.9505, and its standard error is below 0.003.
    assert hits / count >= 0.95 - 3 * 0.003
    assert hits / count <= 0.9505 + 3 * 0.003


def test_the_coverage_of_one_threshold_follows_the_beta_distribution():
    generator, coverages, n = np.random.default_rng(0), [], 40
    for _ in range(400):
        true = generator.random((n, 1))  # probabilities of the true class 0, and of class 1
        threshold = fit_threshold(np.hstack([true, 1 - true]), np.zeros(n, int))
        coverages.append(1 - threshold)  # P(p >= threshold) for uniform p
    rank = count_covered(n)
    assert stats.kstest(coverages, stats.beta(rank, n + 1 - rank).cdf).pvalue > 0.01


def test_few_images_have_no_threshold():
    probabilities, labels = draw_miscalibrated(1, n=19)
    assert fit_threshold(probabilities[:18], labels[:18]) is None
    lowest = probabilities[np.arange(19), labels].min()
    assert fit_threshold(probabilities, labels) == lowest


def test_a_set_is_never_empty():
    rows = np.array([[0.4, 0.35, 0.25], [0.2, 0.2, 0.6], [0.5, 0.5, 0]])
    assert select_classes(rows, 0.55).tolist() == [
        [True, False, False],
        [False, False, True],
        [True, False, False],
    ]
    assert select_classes(rows, 0.25).sum(1).tolist() == [3, 1, 2]


def test_invalid_predictions_are_named():
    with pytest.raises(ValueError, match="do not sum to one"):
        fit_threshold(np.ones((20, 3)), np.zeros(20, int))


def test_a_report_counts_covered_images(tmp_path):
    run = make_run(tmp_path / "vit", tested=with_validation(make_evaluation(0)))
    report, evaluation = compute_set_report(run), run.evaluation
    assert report.threshold == read_threshold(run)
    hits = sizes = 0
    for row, label in zip(evaluation.probabilities, evaluation.labels, strict=True):
        selected = {c for c in range(10) if row[c] >= report.threshold} | {int(row.argmax())}
        hits, sizes = hits + (label in selected), sizes + len(selected)
    assert report.coverage == pytest.approx(hits / 200)
    assert report.mean_size == pytest.approx(sizes / 200)
    assert report.interval[0] < report.coverage < report.interval[1]
    assert report.num_calibration == 200


def test_runs_without_validation_predictions_have_no_sets(tmp_path):
    run = make_run(tmp_path / "vit")
    assert read_threshold(run) is None and compute_set_report(run) is None
    (run.path / runs.EVALUATION_FILE).unlink()
    assert read_threshold(runs.read_run(run.path)) is None


def test_invalid_validation_predictions_give_no_sets(tmp_path):
    tested = with_validation(make_evaluation(0))
    tested.validation_probabilities[:] = np.nan
    assert read_threshold(make_run(tmp_path / "vit", tested=tested)) is None


@pytest.mark.parametrize(
    ("pictures", "groups", "count", "has_sets"),
    [(200, 200, 200, True), (200, 150, 200, False), (18, 18, 18, False), (19, 19, 19, True)],
)
def test_custom_classes_need_enough_different_images(tmp_path, pictures, groups, count, has_sets):
    tested = make_evaluation(0)
    few = runs.Evaluation(tested.probabilities[:count], tested.labels[:count], "0" * 16, 0.001)
    run = make_run(tmp_path / "own", tested=few)
    own = {"features_of": "vit", "pictures": pictures, "groups": groups}
    runs.write_config(run.path, run.config | {"own_classes": own})
    run = runs.read_run(run.path)
    assert (read_threshold(run) is not None) == has_sets
    assert compute_set_report(run) is None  # there is no test set
