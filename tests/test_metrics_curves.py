"""`metrics.curves` against plain loops, hand-worked cases and degenerate test sets."""

import numpy as np
import pytest

from tests.test_metrics import LABELS, PROBABILITIES, draw, one_hot
from vitdemo.metrics import curves


@pytest.mark.parametrize("curve", [curves.roc, curves.precision_recall])
def test_every_point_is_what_its_threshold_gives(curve):
    probabilities, labels = draw(1, n=60, c=3)
    found = curve(probabilities, labels, 2)
    for x, y, threshold in zip(found.x, found.y, found.thresholds, strict=True):
        called, own = probabilities[:, 2] >= threshold, labels == 2
        recall = np.mean(called[own])
        if curve is curves.roc:
            assert (x, y) == pytest.approx((np.mean(called[~own]), recall))
        else:
            precision = np.mean(own[called]) if called.any() else 1
            assert (x, y) == pytest.approx((recall, precision))


def test_roc_by_hand():
    # Class 2: 0.6 own, 0.4 own, then three others at 0.1: straight up, then right.
    found = curves.roc(PROBABILITIES, LABELS, 2)
    assert (found.x.tolist(), found.y.tolist()) == ([0, 0, 0, 1], [0, 0.5, 1, 1])
    assert found.thresholds.tolist() == [np.inf, 0.6, 0.4, 0.1]
    assert found.area == 1


def test_average_precision_by_hand():
    # Class 0, falling: 0.7 own, 0.5 other, 0.3 own, 0.2, 0.1: precision 1 and 2/3 at its own.
    values = curves.average_precision(PROBABILITIES, LABELS)
    np.testing.assert_allclose(values, [(1 + 2 / 3) / 2, 1, 1])


def test_class_never_predicted_is_ranked_all_the_same():
    probabilities, labels = np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([0, 1])
    assert curves.roc(probabilities, labels, 1).area == 1
    assert curves.average_precision(probabilities, labels).tolist() == [1, 1]


def test_class_without_pictures_is_nan_in_the_table_and_refused_as_a_curve():
    probabilities, labels = one_hot([0, 1, 2], 3), np.array([0, 1, 1])
    assert np.isnan(curves.average_precision(probabilities, labels)).tolist() == [0, 0, 1]
    for curve in (curves.roc, curves.precision_recall):
        with pytest.raises(ValueError, match="class 2 has no pictures"):
            curve(probabilities, labels, 2)


def test_one_class_has_no_rest():
    probabilities, labels = np.ones((4, 1)), np.zeros(4, dtype=int)
    assert curves.average_precision(probabilities, labels).tolist() == [1]
    with pytest.raises(ValueError, match="all pictures are of class 0"):
        curves.roc(probabilities, labels, 0)


def test_two_pictures_all_wrong():
    probabilities, labels = one_hot([1, 0], 2), np.array([0, 1])
    assert curves.roc(probabilities, labels, 0).area == 0
    assert curves.average_precision(probabilities, labels).tolist() == [0.5, 0.5]
    assert curves.top_k_accuracy(probabilities, labels, 1) == 0
    assert curves.top_k_accuracy(probabilities, labels, 2) == 1


@pytest.mark.parametrize("c", [-1, 7])
def test_a_class_that_is_not_there_is_refused(c):
    with pytest.raises(ValueError, match=f"no class {c}: choose 0 to 6"):
        curves.roc(*draw(0), c)


@pytest.mark.parametrize(
    "metric",
    [
        curves.average_precision,
        lambda p, y: curves.roc(p, y, 0),
        lambda p, y: curves.precision_recall(p, y, 0),
        lambda p, y: curves.top_k_accuracy(p, y, 1),
    ],
)
def test_nan_is_refused_by_name(metric):
    with pytest.raises(ValueError, match="NaN or infinite probabilities in 5 of 5 rows"):
        metric(PROBABILITIES * np.nan, LABELS)


# --- top-k ---------------------------------------------------------------------------------------


def test_top_k_by_hand():
    # Places of the true class, from 1: 1, 2, 1, 1, 2.
    shares = [curves.top_k_accuracy(PROBABILITIES, LABELS, k) for k in (1, 2, 3)]
    assert shares == [3 / 5, 1, 1]


@pytest.mark.parametrize("kind", [float, np.uint8])
def test_a_tie_goes_to_the_lower_class(kind):
    probabilities, labels = np.full((4, 4), 0.25), np.array([0, 1, 2, 3])
    shares = [curves.top_k_accuracy(probabilities, labels, k) for k in (1, 2, 3)]
    assert shares == [1 / 4, 2 / 4, 3 / 4]
    assert curves.top_k_accuracy(one_hot([1, 0], 2).astype(kind), np.array([1, 1]), 1) == 0.5


def test_top_k_of_all_classes_is_one():
    probabilities, labels = one_hot([1, 1, 1], 3), np.array([0, 1, 0])
    assert curves.top_k_accuracy(probabilities, labels, 9) == 1


def test_top_0_is_refused():
    with pytest.raises(ValueError, match="k must be 1 or more, not 0"):
        curves.top_k_accuracy(PROBABILITIES, LABELS, 0)


# --- means ---------------------------------------------------------------------------------------


def test_means_leave_out_what_is_nan():
    values, support = np.array([0.5, np.nan, 1.0]), np.array([3, 0, 1])
    assert curves.macro_mean(values) == 0.75
    assert curves.weighted_mean(values, support) == pytest.approx(2.5 / 4)
    assert np.isnan(curves.macro_mean(values[1:2]))
    assert np.isnan(curves.weighted_mean(values[1:2], support[1:2]))


@pytest.mark.parametrize("recall, precision", [(0, 1), (0.5, 1), (0.51, 2 / 3), (1, 2 / 3)])
def test_precision_at_a_recall_by_hand(recall, precision):
    curve = curves.precision_recall(PROBABILITIES, LABELS, 0)  # 0.7 own, 0.5 other, 0.3 own
    assert curves.precision_at(curve, recall) == pytest.approx(precision)


def test_impossible_recalls_are_refused():
    with pytest.raises(ValueError, match="recall must be 0 to 1, not 2"):
        curves.precision_at(curves.precision_recall(PROBABILITIES, LABELS, 0), 2)
