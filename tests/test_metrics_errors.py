"""`vitdemo.metrics.errors` against hand-worked cases and degenerate test sets."""

import numpy as np
import pytest

from vitdemo import metrics as ev
from vitdemo.metrics import errors
from vitdemo.metrics.errors import Filters

# Two models, six pictures, three classes.      predicted   margin
A = np.array([[0.70, 0.20, 0.10],  # true 0      0      0.50
              [0.30, 0.60, 0.10],  # true 0      1      0.30
              [0.05, 0.90, 0.05],  # true 0      1      0.85
              [0.10, 0.80, 0.10],  # true 1      1      0.70
              [0.20, 0.20, 0.60],  # true 2      2      0.40
              [0.50, 0.10, 0.40]])  # true 2     0      0.10   # fmt: skip
B = np.array([[0.20, 0.70, 0.10],  # wrong: 1
              [0.90, 0.05, 0.05],  # right
              [0.10, 0.80, 0.10],  # wrong: 1
              [0.10, 0.80, 0.10],  # right
              [0.10, 0.10, 0.80],  # right
              [0.10, 0.20, 0.70]])  # right       # fmt: skip
LABELS = np.array([0, 0, 0, 1, 2, 2])
BOTH = np.stack([A, B])
BROKEN = BOTH.copy()
BROKEN[1, 3, 0] = np.nan


def pick(model=0, **filters):
    return errors.select(BOTH, LABELS, model, Filters(**filters)).tolist()


def test_kinds_by_hand():
    assert pick() == [2, 1, 5]  # the most confident errors
    assert pick(kind="right", order="data_set") == [0, 3, 4]
    assert pick(kind="all", order="data_set") == [0, 1, 2, 3, 4, 5]
    assert pick(kind="only_right") == [0]
    assert pick(1, kind="only_right", order="data_set") == [1, 5]
    assert pick(kind="all_wrong") == pick(1, kind="all_wrong") == [2]
    for kind, same in (("only_right", "right"), ("all_wrong", "errors")):  # of one model alone
        one, other = (errors.select(A[None], LABELS, 0, Filters(k)) for k in (kind, same))
        assert one.tolist() == other.tolist()


def test_orders_by_hand():
    assert pick(kind="all", order="least_sure") == [5, 1, 4, 0, 3, 2]
    # (0.70+0.20)/2, (0.30+0.90)/2, (0.05+0.10)/2, 0.80, (0.60+0.80)/2, (0.40+0.70)/2
    given = errors.self_confidence(BOTH, LABELS)
    np.testing.assert_allclose(given, [0.45, 0.6, 0.075, 0.8, 0.7, 0.55])
    assert pick(kind="all", order="doubtful_label") == [2, 0, 5, 1, 4, 3]
    same = np.tile([0.3, 0.7], (5, 1))  # of equal confidence the lower number comes first
    assert errors.select(same[None], np.zeros(5, int), 0, Filters()).tolist() == [0, 1, 2, 3, 4]


def test_classes_and_confidence_combine_with_everything():
    assert pick(kind="all", true=0, predicted=1) == pick(true=0) == [2, 1]
    assert pick(kind="all", true=1, predicted=0) == []
    assert pick(predicted=0) == [5]
    assert pick(true=0, low=0.6, high=0.8) == [1]  # both ends belong to it
    assert pick(true=0, predicted=1, low=0.65, order="least_sure") == [2]
    assert pick(kind="only_right", true=0, high=0.6) == []
    over = np.array([[[1.0005, 0.0]]])  # rounded, and within the range
    assert errors.select(over, np.array([1]), 0, Filters()).tolist() == [0]


def test_either_way_joins_the_two_cells():
    assert pick(1, kind="all", true=0, predicted=1) == [2, 0]
    assert pick(1, kind="all", true=1, predicted=0) == []
    assert pick(1, kind="all", true=1, predicted=0, either_way=True) == [2, 0]
    assert pick(true=2, either_way=True) == [5]  # a picture of 2, or one predicted to be 2
    assert pick(1, predicted=1, either_way=True) == [2, 0]


def test_probable_label_errors_by_hand():
    # Mean self-confidence of a label: 0.375 for 0, 0.8 for 1, 0.625 for 2.
    # The mean of picture 2 is (0.075, 0.85, 0.075): it reaches 1's threshold, and only that one.
    # That of picture 5 is (0.3, 0.15, 0.55): none is reached, which says nothing of its label.
    assert errors.probable_label_errors(BOTH, LABELS).tolist() == [2]
    assert pick(kind="label_errors") == [2]
    unseen = np.pad(BOTH, [(0, 0), (0, 0), (0, 1)])  # a class that no picture is labelled with
    assert errors.probable_label_errors(unseen, LABELS).tolist() == [2]
    # 0's threshold is 0.9 and 1's is 0.4: neither label is contradicted.
    two = np.array([[[0.9, 0.1], [0.6, 0.4]]])
    assert errors.probable_label_errors(two, np.array([0, 1])).tolist() == []


def test_rows_or_columns_are_shares_and_what_is_empty_is_zeros():
    matrix = np.array([[3, 0, 1], [0, 0, 0], [1, 0, 3]])
    by_row = [[0.75, 0, 0.25], [0, 0, 0], [0.25, 0, 0.75]]
    assert errors.cells(matrix, "true").tolist() == by_row
    matrix[0, 2] = 0
    by_column = [[0.75, 0, 0], [0, 0, 0], [0.25, 0, 1]]
    assert errors.cells(matrix, "predicted").tolist() == by_column


def test_difference_by_hand():
    first, second = np.array([[3, 1], [0, 4]]), np.array([[4, 0], [2, 2]])
    assert errors.difference(first, second).tolist() == [[-1, 1], [-2, 2]]
    assert errors.difference(first, second, "true").tolist() == [[-0.25, 0.25], [-0.5, 0.5]]
    predicted = [[1 - 4 / 6, 1 / 5 - 0], [0 - 2 / 6, 4 / 5 - 1]]
    np.testing.assert_allclose(errors.difference(first, second, "predicted"), predicted)
    no_such_class = [[2, 2, 0], [0, 0, 0], [1, 0, 3]], [[4, 0, 0], [0, 0, 0], [2, 0, 2]]
    found = errors.difference(*map(np.array, no_such_class), "true")
    assert found.tolist() == [[-0.5, 0.5, 0], [0, 0, 0], [-0.25, 0, 0.25]]


def test_mutual_pairs_by_hand():
    matrix = np.array([[9, 3, 0], [4, 9, 1], [6, 0, 9]])
    found = [(p.first, p.second, p.there, p.back, p.count) for p in errors.mutual_pairs(matrix)]
    assert found == [(0, 1, 3, 4, 7), (0, 2, 0, 6, 6), (1, 2, 1, 0, 1)]
    assert len(errors.mutual_pairs(matrix, 1)) == 1
    assert errors.mutual_pairs(np.diag([3, 4])) == []


def test_one_class():
    one, labels = np.ones((2, 3, 1)), np.zeros(3, int)
    assert errors.select(one, labels, 0, Filters()).tolist() == []
    assert errors.select(one, labels, 1, Filters("all", order="least_sure")).tolist() == [0, 1, 2]
    assert errors.margin(one[0]).tolist() == [1, 1, 1]
    assert errors.probable_label_errors(one, labels).tolist() == []
    assert errors.mutual_pairs(ev.confusion(one[0], labels)) == []


@pytest.mark.parametrize(
    "function",
    [
        errors.check_models,
        errors.self_confidence,
        errors.probable_label_errors,
        lambda p, y: errors.select(p, y, 0, Filters()),
    ],
)
def test_nan_is_refused_by_model_name_and_place(function):
    with pytest.raises(ValueError, match=r"model 1: NaN or inf.* in 1 of 6 rows.*row 3"):
        function(BROKEN, LABELS)
    for shape in [(6, 3), (0, 6, 3)]:
        with pytest.raises(ValueError, match=r"\(M, N, C\), M 1 or more"):
            function(np.ones(shape), LABELS)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: pick(2), "no model 2: choose 0 to 1"),
        (lambda: pick(-1), "no model -1"),
        (lambda: pick(kind="odd"), "unknown kind 'odd': choose errors, right"),
        (lambda: pick(order="odd"), "unknown order 'odd': choose most_confident"),
        (lambda: pick(true=3), "no true class 3: choose 0 to 2"),
        (lambda: pick(predicted=-1), "no predicted class -1"),
        (lambda: pick(low=0.8, high=0.2), "range 0.8 to 0.2"),
        (lambda: pick(low=float("nan")), "range nan to 1.0"),
        (lambda: errors.difference(np.eye(2), 2 * np.eye(2)), "different images"),
        (lambda: errors.difference(np.eye(2), np.eye(3)), "different images"),
        (lambda: errors.cells(np.eye(2), "odd"), "normalisation 'odd': choose count, true, pred"),
        (lambda: errors.mutual_pairs(np.eye(2, dtype=int), -1), "not -1"),
    ],
)
def test_what_does_not_exist_is_named(ask, message):
    with pytest.raises(ValueError, match=message):
        ask()
