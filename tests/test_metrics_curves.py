"""`evaluation.curves` against scikit-learn, plain loops and degenerate test sets."""

import numpy as np
import pytest
from sklearn import metrics as sk

from tests.test_metrics import LABELS, PROBABILITIES, draw, one_hot
from vitdemo import metrics as ev
from vitdemo.metrics import curves


@pytest.mark.parametrize("seed", range(3))
def test_areas_equal_scikit_learn_and_the_table(seed):
    probabilities, labels = draw(seed)
    areas = ev.per_class(probabilities, labels).roc_auc
    truth = one_hot(labels, 7)
    precise = sk.average_precision_score(truth, probabilities, average=None)
    np.testing.assert_allclose(curves.average_precision(probabilities, labels), precise)
    for c in range(7):
        assert curves.roc(probabilities, labels, c).area == pytest.approx(areas[c], abs=1e-12)
        assert curves.precision_recall(probabilities, labels, c).area == pytest.approx(precise[c])


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


@pytest.mark.parametrize("seed", range(4))
def test_ties_are_half_a_win_and_one_threshold(seed):
    probabilities, labels = draw(seed, n=150, c=4)
    probabilities = probabilities.round(seed % 2 + 1)
    probabilities[:, 3] += 1 - probabilities.sum(axis=1)
    probabilities = np.abs(probabilities) / np.abs(probabilities).sum(axis=1, keepdims=True)
    truth, precise = one_hot(labels, 4), curves.average_precision(probabilities, labels)
    wanted = sk.roc_auc_score(truth, probabilities, average=None)
    np.testing.assert_allclose(curves.roc_areas(probabilities, labels), wanted)
    wanted = sk.average_precision_score(truth, probabilities, average=None)
    np.testing.assert_allclose(precise, wanted)
    every = sk.roc_curve(truth[:, 2], probabilities[:, 2], drop_intermediate=False)
    roc = curves.roc(probabilities, labels, 2)
    assert set(zip(roc.x, roc.y, roc.thresholds, strict=True)) <= set(zip(*every, strict=True))
    assert sk.auc(roc.x, roc.y) == pytest.approx(sk.auc(*every[:2]))  # the rest was straight
    wanted = sk.precision_recall_curve(truth[:, 2], probabilities[:, 2], drop_intermediate=True)
    found = curves.precision_recall(probabilities, labels, 2)
    np.testing.assert_allclose(found.y, wanted[0])
    np.testing.assert_allclose(found.x, wanted[1])
    np.testing.assert_allclose(found.thresholds[:-1], wanted[2])


def test_roc_by_hand():
    # Class 2: 0.6 own, 0.4 own, then three others at 0.1: straight up, then right.
    found = curves.roc(PROBABILITIES, LABELS, 2)
    assert (found.x.tolist(), found.y.tolist()) == ([0, 0, 1], [0, 1, 1])
    assert found.thresholds.tolist() == [np.inf, 0.4, 0.1]
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


@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_top_k_equals_scikit_learn(k):
    probabilities, labels = draw(2)
    expected = sk.top_k_accuracy_score(labels, probabilities, k=k, labels=range(7))
    assert curves.top_k_accuracy(probabilities, labels, k) == pytest.approx(expected)


def test_top_1_is_accuracy_also_on_ties():
    probabilities, labels = np.full((4, 4), 0.25), np.array([0, 1, 2, 3])
    assert curves.top_k_accuracy(probabilities, labels, 1) == ev.accuracy(probabilities, labels)
    assert curves.rank_of_truth(probabilities, labels).tolist() == [0, 1, 2, 3]


def test_top_k_of_all_classes_is_one():
    probabilities, labels = one_hot([1, 1, 1], 3), np.array([0, 1, 0])
    assert curves.top_k_accuracy(probabilities, labels, 9) == 1


def test_top_0_is_refused():
    with pytest.raises(ValueError, match="k must be 1 or more, not 0"):
        curves.top_k_accuracy(PROBABILITIES, LABELS, 0)


# --- means ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_means_equal_scikit_learn(seed):
    probabilities, labels = draw(seed)
    labels[:80] = 0  # unequal classes
    metrics, predicted = ev.per_class(probabilities, labels), probabilities.argmax(axis=1)
    for average in ("macro", "weighted"):
        expected = sk.precision_recall_fscore_support(labels, predicted, average=average)[:3]
        for name, value in zip(("precision", "recall", "f1"), expected, strict=True):
            column = getattr(metrics, name)
            mean = (
                curves.macro_mean(column)
                if average == "macro"
                else curves.weighted_mean(column, metrics.support)
            )
            assert mean == pytest.approx(value)


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


@pytest.mark.parametrize("seed", range(3))
def test_precision_at_a_recall_is_that_of_the_highest_threshold_that_reaches_it(seed):
    probabilities, labels = draw(seed)
    curve = curves.precision_recall(probabilities, labels, 1)
    for recall in (0.2, 0.5, 0.9, 1.0):
        for threshold in np.sort(probabilities[:, 1])[::-1]:
            called, own = probabilities[:, 1] >= threshold, labels == 1
            if np.mean(called[own]) >= recall:
                break
        assert curves.precision_at(curve, recall) == pytest.approx(np.mean(own[called]))


def test_impossible_recalls_are_refused():
    with pytest.raises(ValueError, match="recall must be 0 to 1, not 2"):
        curves.precision_at(curves.precision_recall(PROBABILITIES, LABELS, 0), 2)
