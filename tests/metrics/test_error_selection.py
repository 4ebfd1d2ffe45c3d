"""`metrics.error_selection` compared with hand-worked cases and degenerate test sets."""

import numpy as np
import pytest

from vitdemo.metrics.error_selection import (
    Filters,
    compute_margin,
    compute_self_confidence,
    find_label_errors,
    mutual_confusions,
    select_images,
)

# Two models predict six images, three classes. predicted   margin
A = np.array([[0.70, 0.20, 0.10],  # true 0      0      0.50
              [0.30, 0.60, 0.10],  # true 0      1      0.30
              [0.05, 0.90, 0.05],  # true 0      1      0.85
              [0.10, 0.80, 0.10],  # true 1      1      0.70
              [0.20, 0.20, 0.60],  # true 2      2      0.40
              [0.50, 0.10, 0.40]])  # true 2     0      0.10   # fmt: skip
B = np.array([[0.20, 0.70, 0.10],  # incorrect: 1
              [0.90, 0.05, 0.05],  # correct
              [0.10, 0.80, 0.10],  # incorrect: 1
              [0.10, 0.80, 0.10],  # correct
              [0.10, 0.10, 0.80],  # correct
              [0.10, 0.20, 0.70]])  # correct     # fmt: skip
LABELS = np.array([0, 0, 0, 1, 2, 2])
MODELS = np.stack([A, B])


def select_rows(model=0, **filters):
    return select_images(MODELS, LABELS, model, Filters(**filters)).tolist()


def test_filter_kinds_select_the_expected_images():
    assert select_rows() == [2, 1, 5]  # the most confident errors
    assert select_rows(kind="right", order="data_set") == [0, 3, 4]
    assert select_rows(kind="all", order="data_set") == [0, 1, 2, 3, 4, 5]
    assert select_rows(kind="only_right") == [0]
    assert select_rows(1, kind="only_right", order="data_set") == [1, 5]
    assert select_rows(kind="all_wrong") == select_rows(1, kind="all_wrong") == [2]
    for kinds in (("only_right", "right"), ("all_wrong", "errors")):  # equal for a single model
        one, other = (select_images(A[None], LABELS, 0, Filters(kind)) for kind in kinds)
        assert one.tolist() == other.tolist()


def test_orders_and_self_confidence_match_hand_worked_values():
    assert select_rows(kind="all", order="least_sure") == [5, 1, 4, 0, 3, 2]
    # (0.70+0.20)/2, (0.30+0.90)/2, (0.05+0.10)/2, 0.80, (0.60+0.80)/2, (0.40+0.70)/2
    self_confidence = compute_self_confidence(MODELS, LABELS)
    np.testing.assert_allclose(self_confidence, [0.45, 0.6, 0.075, 0.8, 0.7, 0.55])
    assert select_rows(kind="all", order="doubtful_label") == [2, 0, 5, 1, 4, 3]
    equal = np.tile([0.3, 0.7], (1, 5, 1))  # the index breaks ties of the confidence
    rows = select_images(equal, np.zeros(5, int), 0, Filters())
    assert rows.tolist() == [0, 1, 2, 3, 4]


def test_class_and_confidence_filters_combine_with_other_filters():
    assert select_rows(kind="all", true=0, predicted=1) == select_rows(true=0) == [2, 1]
    assert select_rows(kind="all", true=1, predicted=0) == []
    assert select_rows(predicted=0) == [5]
    assert select_rows(true=0, low=0.6, high=0.8) == [1]  # the range includes both ends
    assert select_rows(true=0, predicted=1, low=0.65, order="least_sure") == [2]
    assert select_rows(kind="only_right", true=0, high=0.6) == []
    rounded = np.array([[[1.0005, 0.0]]])  # rounding errors stay within the range
    assert select_images(rounded, np.array([1]), 0, Filters()).tolist() == [0]


def test_either_way_includes_the_opposite_confusion():
    assert select_rows(1, kind="all", true=0, predicted=1) == [2, 0]
    assert select_rows(1, kind="all", true=1, predicted=0) == []
    assert select_rows(1, kind="all", true=1, predicted=0, either_way=True) == [2, 0]
    assert select_rows(true=2, either_way=True) == [5]  # images of class 2 or predicted as class 2
    assert select_rows(1, predicted=1, either_way=True) == [2, 0]


def test_probable_label_errors_match_hand_worked_thresholds():
    # The thresholds, the mean self-confidence per label, are 0.375, 0.8 and 0.625.
    # The mean of image 2 is (0.075, 0.85, 0.075) and reaches only the threshold of class 1.
    # The mean of image 5 is (0.3, 0.15, 0.55) and reaches no threshold, so its label is not judged.
    assert find_label_errors(MODELS, LABELS).tolist() == [2]
    assert select_rows(kind="label_errors") == [2]
    unused_class = np.pad(MODELS, [(0, 0), (0, 0), (0, 1)])
    assert find_label_errors(unused_class, LABELS).tolist() == [2]
    # The thresholds are 0.9 for class 0 and 0.4 for class 1, so no label is contradicted.
    two_images = np.array([[[0.9, 0.1], [0.6, 0.4]]])
    assert find_label_errors(two_images, np.array([0, 1])).tolist() == []


def test_mutual_confusions_match_hand_worked_counts():
    matrix = np.array([[9, 3, 0], [4, 9, 1], [6, 0, 9]])
    pairs = [
        (pair.first, pair.second, pair.first_as_second, pair.second_as_first, pair.count)
        for pair in mutual_confusions(matrix, 9)
    ]
    assert pairs == [(0, 1, 3, 4, 7), (0, 2, 0, 6, 6), (1, 2, 1, 0, 1)]
    assert len(mutual_confusions(matrix, 1)) == 1
    assert mutual_confusions(np.diag([3, 4]), 9) == []


def test_error_analysis_handles_a_single_class():
    probabilities, labels = np.ones((2, 3, 1)), np.zeros(3, int)
    assert select_images(probabilities, labels, 0, Filters()).tolist() == []
    rows = select_images(probabilities, labels, 1, Filters("all", order="least_sure"))
    assert rows.tolist() == [0, 1, 2]
    assert compute_margin(probabilities[0]).tolist() == [1, 1, 1]
    assert find_label_errors(probabilities, labels).tolist() == []


def test_nan_errors_name_the_model_and_the_row():
    damaged = MODELS.copy()
    damaged[1, 3, 0] = np.nan
    with pytest.raises(ValueError, match=r"model 1: NaN or inf.* in 1 of 6 rows.*row 3"):
        select_images(damaged, LABELS, 0, Filters())
    for shape in [(6, 3), (0, 6, 3)]:
        with pytest.raises(ValueError, match=r"\(M, N, C\), M 1 or more"):
            select_images(np.ones(shape), LABELS, 0, Filters())


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"model": 2}, "no model 2: choose 0 to 1"),
        ({"model": -1}, "no model -1"),
        ({"kind": "odd"}, "unknown kind 'odd': choose errors, right"),
        ({"order": "odd"}, "unknown order 'odd': choose most_confident"),
        ({"true": 3}, "no true class 3: choose 0 to 2"),
        ({"predicted": -1}, "no predicted class -1"),
        ({"low": 0.8, "high": 0.2}, "range 0.8 to 0.2"),
        ({"low": float("nan")}, "range nan to 1.0"),
    ],
)
def test_invalid_filters_and_models_are_named_in_the_error(filters, message):
    with pytest.raises(ValueError, match=message):
        select_rows(**filters)
