"""`metrics.intervals` compared with resampled images, known results and measured coverage."""

import time

import numpy as np
import pytest
from scipy import stats

from tests.metrics.test_metrics import draw_predictions
from vitdemo import metrics as ev
from vitdemo.metrics import intervals


def reference_interval(metric, n, resamples=3000, seed=1):
    """Compute the 95% interval of `metric(indices)` from bootstrap samples of the `n` images."""
    rng = np.random.default_rng(seed)
    values = [metric(rng.integers(0, n, n)) for _ in range(resamples)]
    return np.nanpercentile(values, [2.5, 97.5], axis=0)


def test_bootstrap_intervals_equal_resampling_of_single_images(monkeypatch):
    monkeypatch.setattr(intervals, "NUM_RESAMPLES", 20_000)
    probabilities, labels = draw_predictions(0, n=400, c=3)
    predicted = probabilities.argmax(axis=1)
    result = intervals.compute_metric_intervals(ev.confusion_matrix(probabilities, labels))

    def class_table(indices):
        true, guess = labels[indices], predicted[indices]
        correct, rows, support = (
            np.bincount(x, minlength=3) for x in (true[true == guess], guess, true)
        )
        values = np.array([correct / rows, correct / support, 2 * correct / (rows + support)])
        weighted = np.average(values, axis=1, weights=support)
        return np.c_[values, np.mean(values, axis=1), weighted]

    expected = reference_interval(class_table, 400)  # (2, 3, C + 2)
    for row, name in enumerate(("precision", "recall", "f1")):
        actual = np.c_[getattr(result, name), result.macro[name], result.weighted[name]]
        np.testing.assert_allclose(actual, expected[:, row], atol=0.02 if name != "f1" else 0.012)
    np.testing.assert_allclose(result.weighted["recall"], result.accuracy, atol=0.005)


def test_accuracy_recall_and_precision_have_wilson_intervals():
    result = intervals.compute_metric_intervals(np.array([[40, 10, 0], [5, 3, 0], [2, 0, 0]]))
    np.testing.assert_allclose(result.accuracy, intervals.wilson_interval(43, 60))
    np.testing.assert_allclose(result.recall, intervals.wilson_interval([40, 3, 0], [50, 8, 2]))
    np.testing.assert_allclose(result.precision, intervals.wilson_interval([40, 3, 0], [47, 13, 0]))
    assert np.isnan(result.precision[:, 2]).all()  # the class is never predicted


def test_bootstrap_does_not_depend_on_the_batch_size(monkeypatch):
    matrix = ev.confusion_matrix(*draw_predictions(0, c=30))
    first = intervals.compute_metric_intervals(matrix).f1
    monkeypatch.setattr(intervals, "MAX_CELLS_AT_ONCE", 500)
    assert np.array_equal(intervals.compute_metric_intervals(matrix).f1, first, equal_nan=True)


def test_bootstrap_of_10000_images_takes_under_half_a_second():
    matrix = ev.confusion_matrix(*draw_predictions(0, n=10_000, c=10))
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        intervals.compute_metric_intervals(matrix)
        seconds.append(time.perf_counter() - started)
    assert min(seconds) < 0.5


def test_bootstrap_handles_degenerate_classes():
    never_predicted = intervals.compute_metric_intervals(np.array([[50, 0], [50, 0]]))
    assert never_predicted.f1[:, 1].tolist() == [0, 0]  # in every bootstrap sample
    assert never_predicted.macro["precision"][1] < 0.35
    empty = intervals.compute_metric_intervals(np.array([[40, 10, 5], [10, 40, 0], [0, 0, 0]]))
    assert np.isnan(empty.recall).tolist() == [[False, False, True]] * 2
    low, high = empty.macro["recall"]  # the macro average ignores the class
    assert 0.6 < low < (40 / 55 + 40 / 50) / 2 < high < 0.9
    assert intervals.compute_metric_intervals(np.array([[7]])).macro["f1"].tolist() == [1, 1]
    two_images = intervals.compute_metric_intervals(np.array([[1, 0], [1, 0]]))
    np.testing.assert_allclose(two_images.accuracy, [0.095, 0.905], atol=1e-3)
    assert two_images.f1[:, 1].tolist() == [0, 0]  # if the class is sampled


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (intervals.wilson_interval, (3, 2), "hits must be from 0"),
        (intervals.margin_of_error, (-1, 2), "hits must be from 0"),
        (intervals.mean_interval, (np.ones(1),), "at least 2 values"),
        (intervals.seed_difference_threshold, ([0.8],), "at least 2 values"),
        (intervals.difference_interval, (-1, 0, 10), "add up to at most 10 images"),
        (intervals.difference_interval, (6, 5, 10), "add up to at most 10 images"),
        (intervals.ranking_interval, (np.eye(3)[:2], [0, 1], 2), "class 2 has no images"),
    ],
)
def test_invalid_interval_arguments_are_rejected(function, arguments, message):
    with pytest.raises(ValueError, match=message):
        function(*arguments)


def test_seed_difference_threshold_uses_students_t_distribution():
    seeds = [80.78, 80.39, 80.07]  # accuracies of vit-muon-cpu with a standard deviation of 0.36
    deviation = np.std(seeds, ddof=1)
    # 4.3027 is the 97.5% quantile of Student's t with 2 degrees of freedom.
    threshold = intervals.seed_difference_threshold(seeds)
    assert threshold == pytest.approx(4.3027 * np.sqrt(2) * deviation, rel=1e-4)
    assert threshold == pytest.approx(2.2, abs=0.05)
    assert intervals.seed_difference_threshold([0.5, 0.51]) == pytest.approx(0.12706, rel=1e-3)


def test_seed_difference_threshold_has_about_5_percent_false_positives():
    draws = np.random.default_rng(0).normal(80, 0.5, (500, 4))
    exceeded = [
        abs(other - seeds[0]) > intervals.seed_difference_threshold(seeds)
        for *seeds, other in draws
    ]
    # The first run also contributes to the deviation, so the threshold is slightly conservative.
    assert 0.015 < np.mean(exceeded) < 0.06


def test_wilson_intervals_and_margins_match_known_values():
    # By hand, the interval is from n / (n + z^2) = 20 / 23.84 to 1.
    np.testing.assert_allclose(intervals.wilson_interval(20, 20), [0.83888, 1], atol=1e-5)
    assert intervals.margin_of_error(20, 20) == pytest.approx((1 - 0.83888) / 2, abs=1e-5)
    margin = intervals.difference_margin_of_error(450, 500)
    deviation = np.diff(np.random.default_rng(0).binomial(500, 0.9, (20_000, 2)) / 500).std()
    assert margin == pytest.approx(1.96 * deviation, rel=0.02)
    assert np.isnan(intervals.wilson_interval([0, 1], [0, 2])).tolist() == [[True, False]] * 2
    for hits, n in ((0, 7), (9, 10), (450, 500)):
        expected = stats.binomtest(hits, n).proportion_ci(method="wilson")
        np.testing.assert_allclose(intervals.wilson_interval(hits, n), expected, atol=1e-12)


def test_mean_interval_uses_students_t_distribution():
    # The standard error is sqrt(5/3) / 2. 3.18245 is the 97.5% quantile of t with 3 degrees.
    margin = 3.18245 * np.sqrt(5 / 3) / 2
    interval = intervals.mean_interval(np.arange(1.0, 5.0))
    np.testing.assert_allclose(interval, [2.5, 2.5 - margin, 2.5 + margin], rtol=1e-5)
    assert intervals.mean_interval(np.ones(3)) == (1, 1, 1)


def test_ranking_intervals_equal_resampling_of_single_images(monkeypatch):
    monkeypatch.setattr(intervals, "NUM_RESAMPLES", 4000)
    probabilities, labels = draw_predictions(5, n=250, c=3)
    probabilities = probabilities.round(1)  # many ties
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    area, precision = intervals.ranking_interval(probabilities, labels, 1)
    truth, scores = labels == 1, probabilities[:, 1]

    def ranking_metrics(indices):
        positive, sample = truth[indices], scores[indices]
        own, others = sample[positive][:, None], sample[~positive]  # (P, 1), (N - P,)
        auc = np.mean((own > others) + 0.5 * (own == others))
        hits = (own <= own.T).sum(axis=1)  # at the threshold of each positive image
        return auc, np.mean(hits / (hits + (own <= others).sum(axis=1)))

    expected = reference_interval(ranking_metrics, 250)
    np.testing.assert_allclose(area, expected[:, 0], atol=0.01)
    np.testing.assert_allclose(precision, expected[:, 1], atol=0.02)


def test_ranking_interval_handles_one_class_and_two_images():
    area, precision = intervals.ranking_interval(np.ones((4, 1)), np.zeros(4, int), 0)
    assert np.isnan(area).all() and precision.tolist() == [1, 1]
    area, precision = intervals.ranking_interval(np.eye(2), np.array([0, 1]), 0)
    assert (area.tolist(), precision.tolist()) == ([1, 1], [1, 1])


def test_difference_interval_matches_hand_worked_values():
    # The interval is -10 / 102 ± 1.96 * sqrt(15 - 100 / 102) / 102.
    interval = intervals.difference_interval(2, 12, 100)
    np.testing.assert_allclose(interval, [-0.16994, -0.02614], atol=1e-4)
    assert intervals.difference_interval(0, 5, 5)[0] == -1  # the bound is clipped
    low, high = intervals.difference_interval(4, 0, 1000)  # McNemar's test has p = 0.125
    assert low < 0 < 4 / 1000 < high
    low, high = intervals.difference_interval(0, 0, 10)
    assert -0.3 < low == -high < 0  # ten images give a wide interval
    assert np.isnan(intervals.difference_interval(0, 0, 0)).all()


@pytest.mark.parametrize(("first", "second"), [(0.05, 0.15), (0.0, 0.01)])
def test_difference_interval_covers_the_truth_in_95_percent(first, second):
    probabilities = [first, second, 1 - first - second]
    counts = np.random.default_rng(0).multinomial(300, probabilities, size=2000)
    bounds = np.array([intervals.difference_interval(*row[:2], 300) for row in counts])
    assert np.mean((bounds[:, 0] <= first - second) & (first - second <= bounds[:, 1])) > 0.94


def test_independent_difference_interval_matches_the_published_example():
    # Newcombe (1998), table II: 56/70 against 48/80, method 10
    interval = intervals.independent_difference_interval(56, 70, 48, 80)
    assert interval == pytest.approx([0.0524, 0.3339], abs=5e-5)
    low, high = intervals.independent_difference_interval(10, 10, 10, 10)
    assert low < 0 < high  # no width 0 without errors
    assert np.isnan(intervals.independent_difference_interval(0, 0, 1, 2)).all()
