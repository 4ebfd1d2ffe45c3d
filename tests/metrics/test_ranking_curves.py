"""`metrics.ranking_curves` compared with loops, hand-worked cases and degenerate test sets."""

import numpy as np
import pytest

from tests.metrics.test_metrics import LABELS, PROBABILITIES, draw_predictions, one_hot
from vitdemo.metrics import ranking_curves as curves


@pytest.mark.parametrize("curve", [curves.compute_roc_curve, curves.compute_precision_recall_curve])
def test_curve_points_match_their_thresholds(curve):
    probabilities, labels = draw_predictions(1, n=60, c=3)
    points = curve(probabilities, labels, 2)
    for x, y, threshold in zip(points.x, points.y, points.thresholds, strict=True):
        predicted, positive = probabilities[:, 2] >= threshold, labels == 2
        recall = np.mean(predicted[positive])
        if curve is curves.compute_roc_curve:
            assert (x, y) == pytest.approx((np.mean(predicted[~positive]), recall))
        else:
            precision = np.mean(positive[predicted]) if predicted.any() else 1
            assert (x, y) == pytest.approx((recall, precision))


def test_roc_and_average_precision_match_hand_worked_values():
    # Class 2 has positives at 0.6 and 0.4 and three negatives at 0.1.
    roc = curves.compute_roc_curve(PROBABILITIES, LABELS, 2)
    assert (roc.x.tolist(), roc.y.tolist()) == ([0, 0, 0, 1], [0, 0.5, 1, 1])
    assert roc.thresholds.tolist() == [np.inf, 0.6, 0.4, 0.1]
    assert roc.area == 1
    # Class 0 has positives at 0.7 and 0.3, with precision 1 and 2/3, and negatives at 0.5, 0.2 and
    # 0.1. The order of one in 6 pairs is wrong.
    values = curves.average_precision_by_class(PROBABILITIES, LABELS)
    np.testing.assert_allclose(values, [(1 + 2 / 3) / 2, 1, 1])
    np.testing.assert_allclose(curves.roc_auc_by_class(PROBABILITIES, LABELS), [5 / 6, 1, 1])


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (curves.one_vs_rest, (np.eye(3), np.array([0, 1, 1]), 2), "class 2 has no images"),
        (curves.one_vs_rest, (np.eye(3), np.array([0, 1, 1]), 3), "class 3 has no images"),
        (curves.compute_roc_curve, (np.ones((4, 1)), np.zeros(4, int), 0), "all images are of"),
        (curves.top_k_accuracy, (PROBABILITIES, LABELS, 0), "k must be 1 or more, not 0"),
    ],
)
def test_missing_classes_and_invalid_k_are_rejected(function, arguments, message):
    with pytest.raises(ValueError, match=message):
        function(*arguments)


@pytest.mark.parametrize("dtype", [float, np.uint8])
def test_top_k_accuracy_gives_ties_to_the_lower_class_and_ends_at_one(dtype):
    # The ranks of the true class are 1, 2, 1, 1 and 2.
    accuracies = [curves.top_k_accuracy(PROBABILITIES, LABELS, k) for k in (1, 2, 9)]
    assert accuracies == [3 / 5, 1, 1]
    uniform = np.full((4, 4), 0.25)
    accuracies = [curves.top_k_accuracy(uniform, np.arange(4), k) for k in (1, 2, 3)]
    assert accuracies == [1 / 4, 2 / 4, 3 / 4]
    assert curves.top_k_accuracy(one_hot([1, 0], 2).astype(dtype), np.array([1, 1]), 1) == 0.5


def test_means_ignore_nan():
    values, support = np.array([0.5, np.nan, 1.0]), np.array([3, 0, 1])
    assert curves.macro_mean(values) == 0.75
    assert curves.weighted_mean(values, support) == pytest.approx(2.5 / 4)
    assert np.isnan(curves.macro_mean(values[1:2]))
    assert np.isnan(curves.weighted_mean(values[1:2], support[1:2]))


def test_precision_at_recall_matches_hand_worked_values():
    # The three largest probabilities of class 0 are a positive, a negative and a positive.
    curve = curves.compute_precision_recall_curve(PROBABILITIES, LABELS, 0)
    precisions = [curves.precision_at(curve, recall) for recall in (0, 0.5, 0.51, 1)]
    assert precisions == pytest.approx([1, 1, 2 / 3, 2 / 3])
    with pytest.raises(ValueError, match="recall must be 0 to 1, not 2"):
        curves.precision_at(curve, 2)
