"""`metrics.curves` against plain loops, hand-worked cases and degenerate test sets."""

import numpy as np
import pytest

from tests.test_metrics import LABELS, PROBABILITIES, draw_predictions, one_hot
from vitdemo.metrics import ranking_curves


@pytest.mark.parametrize(
    "curve", [ranking_curves.compute_roc_curve, ranking_curves.compute_precision_recall_curve]
)
def test_curve_points_match_their_thresholds(curve):
    probabilities, labels = draw_predictions(1, n=60, c=3)
    found = curve(probabilities, labels, 2)
    for x, y, threshold in zip(found.x, found.y, found.thresholds, strict=True):
        called, own = probabilities[:, 2] >= threshold, labels == 2
        recall = np.mean(called[own])
        if curve is ranking_curves.compute_roc_curve:
            assert (x, y) == pytest.approx((np.mean(called[~own]), recall))
        else:
            precision = np.mean(own[called]) if called.any() else 1
            assert (x, y) == pytest.approx((recall, precision))


def test_roc_and_average_precision_match_hand_worked_values():
    # Class 2: 0.6 own, 0.4 own, then three others at 0.1: straight up, then right.
    found = ranking_curves.compute_roc_curve(PROBABILITIES, LABELS, 2)
    assert (found.x.tolist(), found.y.tolist()) == ([0, 0, 0, 1], [0, 0.5, 1, 1])
    assert found.thresholds.tolist() == [np.inf, 0.6, 0.4, 0.1]
    assert found.area == 1
    # Class 0, falling: 0.7 own, 0.5 other, 0.3 own, 0.2, 0.1: precision 1 and 2/3 at its own; of
    # the 6 pairs of an own and another one is the wrong way round.
    values = ranking_curves.average_precision_by_class(PROBABILITIES, LABELS)
    np.testing.assert_allclose(values, [(1 + 2 / 3) / 2, 1, 1])
    np.testing.assert_allclose(
        ranking_curves.roc_auc_by_class(PROBABILITIES, LABELS), [5 / 6, 1, 1]
    )


def test_curves_handle_one_class_and_a_reversed_ranking():
    assert ranking_curves.average_precision_by_class(
        np.ones((4, 1)), np.zeros(4, dtype=int)
    ).tolist() == [1]
    probabilities, labels = one_hot([1, 0], 2), np.array([0, 1])
    assert ranking_curves.compute_roc_curve(probabilities, labels, 0).area == 0
    assert ranking_curves.average_precision_by_class(probabilities, labels).tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    "curve, probabilities, labels, c, message",
    [
        (ranking_curves.compute_roc_curve, np.eye(3), [0, 1, 1], 2, "class 2 has no images"),
        (
            ranking_curves.compute_precision_recall_curve,
            np.eye(3),
            [0, 1, 1],
            2,
            "class 2 has no images",
        ),
        (
            ranking_curves.compute_roc_curve,
            np.ones((4, 1)),
            [0, 0, 0, 0],
            0,
            "all images are of class 0",
        ),
        (ranking_curves.compute_roc_curve, np.eye(3), [0, 1, 1], -1, "no class -1: choose 0 to 2"),
        (ranking_curves.compute_roc_curve, np.eye(3), [0, 1, 1], 3, "no class 3: choose 0 to 2"),
        (ranking_curves.top_k_accuracy, np.eye(3), [0, 1, 1], 0, "k must be 1 or more, not 0"),
    ],
)
def test_missing_classes_and_invalid_k_are_rejected(curve, probabilities, labels, c, message):
    with pytest.raises(ValueError, match=message):
        curve(probabilities, np.array(labels), c)


@pytest.mark.parametrize("kind", [float, np.uint8])
def test_top_k_accuracy_gives_ties_to_the_lower_class_and_ends_at_one(kind):
    # Places of the true class, from 1: 1, 2, 1, 1, 2.
    shares = [ranking_curves.top_k_accuracy(PROBABILITIES, LABELS, k) for k in (1, 2, 9)]
    assert shares == [3 / 5, 1, 1]
    even = np.full((4, 4), 0.25)
    shares = [ranking_curves.top_k_accuracy(even, np.arange(4), k) for k in (1, 2, 3)]
    assert shares == [1 / 4, 2 / 4, 3 / 4]
    assert (
        ranking_curves.top_k_accuracy(one_hot([1, 0], 2).astype(kind), np.array([1, 1]), 1) == 0.5
    )


def test_means_ignore_nan():
    values, support = np.array([0.5, np.nan, 1.0]), np.array([3, 0, 1])
    assert ranking_curves.macro_mean(values) == 0.75
    assert ranking_curves.weighted_mean(values, support) == pytest.approx(2.5 / 4)
    assert np.isnan(ranking_curves.macro_mean(values[1:2]))
    assert np.isnan(ranking_curves.weighted_mean(values[1:2], support[1:2]))


def test_precision_at_recall_matches_hand_worked_values():
    curve = ranking_curves.compute_precision_recall_curve(
        PROBABILITIES, LABELS, 0
    )  # 0.7 own, 0.5 other, 0.3 own
    found = [ranking_curves.precision_at(curve, recall) for recall in (0, 0.5, 0.51, 1)]
    assert found == pytest.approx([1, 1, 2 / 3, 2 / 3])
    with pytest.raises(ValueError, match="recall must be 0 to 1, not 2"):
        ranking_curves.precision_at(curve, 2)
