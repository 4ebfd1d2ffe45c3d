"""`vitdemo.metrics` against scikit-learn, hand-worked examples and degenerate test sets."""

import numpy as np
import pytest
from sklearn import metrics as sk

from vitdemo import metrics as ev

# Five pictures, three classes; predicted: 0 1 1 2 0, true: 0 0 1 2 2.
PROBABILITIES = np.array(
    [[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.5, 0.1, 0.4]]
)
LABELS = np.array([0, 0, 1, 2, 2])
NAMES = ("precision", "recall", "f1", "roc_auc")
CIFAR10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def draw(seed, n=300, c=7):
    """Random (N, C) float32 probabilities, right more often than chance, and (N,) labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, c, n)
    logits = rng.normal(size=(n, c)) + 1.5 * np.eye(c)[labels]
    odds = np.exp(logits)
    return (odds / odds.sum(axis=1, keepdims=True)).astype(np.float32), labels


def one_hot(predicted, c):
    return np.eye(c)[predicted]


# --- check ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_sound_input_of_any_precision_passes(dtype):
    probabilities, labels = draw(0, c=200)
    columns = np.asfortranarray(probabilities, dtype=dtype)  # sums run in the dtype itself
    ev.check(columns, labels.astype(np.uint8))


@pytest.mark.parametrize(
    "probabilities, labels, message",
    [
        (np.ones(5), LABELS, r"numbers \(N, C\), not float64 of shape \(5,\)"),
        (PROBABILITIES.astype(str), LABELS, "must be numbers"),
        (PROBABILITIES, LABELS[:4], r"shape \(5,\), not int64 of shape \(4,\)"),
        (PROBABILITIES, LABELS[:, None], r"of shape \(5, 1\)"),
        (PROBABILITIES, LABELS.astype(float), "integers.*not float64"),
        (np.ones((0, 3)), LABELS[:0], "nothing to evaluate: 0 pictures"),
        (np.ones((5, 0)), LABELS, "0 classes"),
        (PROBABILITIES, np.array([0, 0, 1, 3, 3]), "outside 0 to 2 in 2 of 5 rows.*row 3"),
        (PROBABILITIES, np.array([0, -1, 1, 2, 2]), "outside 0 to 2 in 1 of 5 rows.*row 1"),
        (PROBABILITIES + 0.001, LABELS, "do not sum to one within 0.001 in 5 of 5 rows"),
    ],
)
def test_bad_input_is_refused_by_name(probabilities, labels, message):
    with pytest.raises(ValueError, match=message):
        ev.check(probabilities, labels)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_counted_and_located(value):
    broken = PROBABILITIES.copy()
    broken[2, 0] = broken[4, 1] = broken[4, 2] = value
    with pytest.raises(ValueError, match=r"NaN or infinite probabilities in 2 of 5 rows.*row 2,"):
        ev.check(broken, LABELS)


def test_negative_probabilities_are_refused_although_the_row_sums_to_one():
    broken = PROBABILITIES.copy()
    broken[3] = [-0.1, 0.5, 0.6]
    with pytest.raises(ValueError, match=r"negative probabilities in 1 of 5 rows.*row 3"):
        ev.check(broken, LABELS)


@pytest.mark.parametrize("metric", [ev.accuracy, ev.confusion, ev.per_class])
def test_every_metric_refuses_nan(metric):
    with pytest.raises(ValueError, match="NaN"):
        metric(PROBABILITIES * np.nan, LABELS)


# --- accuracy and confusion ----------------------------------------------------------------------


def test_accuracy_by_hand():
    assert ev.accuracy(PROBABILITIES, LABELS) == 3 / 5


def test_confusion_by_hand_has_true_classes_as_rows():
    assert ev.confusion(PROBABILITIES, LABELS).tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 1]]


def test_confusion_of_uint8_labels_does_not_overflow():
    probabilities, labels = draw(0, n=500, c=200)
    expected = ev.confusion(probabilities, labels)
    np.testing.assert_array_equal(ev.confusion(probabilities, labels.astype(np.uint8)), expected)


def test_tie_goes_to_the_lower_class():
    assert ev.confusion(np.array([[0.2, 0.4, 0.4]]), np.array([2]))[2].tolist() == [0, 1, 0]


def test_matrix_that_is_not_square_is_refused():
    with pytest.raises(ValueError, match=r"\(C, C\), not \(2, 3\)"):
        ev.most_confused(np.ones((2, 3), dtype=int))


# --- per class -----------------------------------------------------------------------------------


def test_per_class_by_hand():
    metrics = ev.per_class(PROBABILITIES, LABELS)
    np.testing.assert_allclose(metrics.precision, [1 / 2, 1 / 2, 1])
    np.testing.assert_allclose(metrics.recall, [1 / 2, 1, 1 / 2])
    np.testing.assert_allclose(metrics.f1, [1 / 2, 2 / 3, 2 / 3])
    np.testing.assert_allclose(metrics.roc_auc, [5 / 6, 1, 1])  # picture 1 (0.3) loses to 4 (0.5)
    assert metrics.support.tolist() == [2, 1, 2]


def test_per_class_equals_scikit_learn():
    probabilities, labels = draw(0)
    metrics, predicted = ev.per_class(probabilities, labels), probabilities.argmax(axis=1)
    expected = sk.precision_recall_fscore_support(labels, predicted, labels=range(7))
    got = (metrics.precision, metrics.recall, metrics.f1, metrics.support)
    np.testing.assert_allclose(got, expected)
    matrix = sk.confusion_matrix(labels, predicted, labels=range(7))
    np.testing.assert_array_equal(ev.confusion(probabilities, labels), matrix)


def test_class_never_predicted_scores_zero_but_keeps_its_roc_auc():
    probabilities = np.array([[0.9, 0.1], [0.6, 0.4]])
    metrics = ev.per_class(probabilities, np.array([0, 1]))
    assert (metrics.precision[1], metrics.recall[1], metrics.f1[1]) == (0, 0, 0)
    assert metrics.roc_auc.tolist() == [1, 1]


@pytest.mark.parametrize("predicted", [[0, 1, 1], [0, 1, 2]], ids=["never predicted", "predicted"])
def test_class_without_pictures_is_nan(predicted):
    metrics = ev.per_class(one_hot(predicted, 3), np.array([0, 1, 1]))
    assert all(np.isnan(getattr(metrics, name)).tolist() == [False, False, True] for name in NAMES)
    assert metrics.support.tolist() == [1, 2, 0]


def test_one_class_has_everything_but_a_roc_auc():
    metrics = ev.per_class(np.ones((4, 1)), np.zeros(4, dtype=int))
    assert [getattr(metrics, name).tolist() for name in NAMES[:3]] == [[1]] * 3
    assert np.isnan(metrics.roc_auc).all()


def test_class_that_all_pictures_belong_to_has_no_roc_auc():
    metrics = ev.per_class(one_hot([0, 1], 2), np.array([0, 0]))
    assert np.isnan(metrics.roc_auc).all()
    assert metrics.recall[0] == 0.5


def test_one_picture_a_class_does_not_warn():
    labels = np.arange(30)
    metrics = ev.per_class(one_hot(labels, 30), labels)
    assert all((getattr(metrics, name) == 1).all() for name in NAMES)


# --- confused pairs ------------------------------------------------------------------------------


def test_most_confused_by_hand():
    matrix = np.array([[90, 10, 0], [4, 15, 1], [10, 0, 30]])
    assert ev.most_confused(matrix) == [
        ev.ConfusedPair(0, 1, 10, 0.1),  # ties in order of the true class
        ev.ConfusedPair(2, 0, 10, 0.25),
        ev.ConfusedPair(1, 0, 4, 0.2),
        ev.ConfusedPair(1, 2, 1, 0.05),
    ]


def test_most_confused_ties_in_one_row_go_by_the_predicted_class():
    pairs = ev.most_confused(np.array([[0, 2, 2, 2]] + [[0] * 4] * 3))
    assert [pair.predicted for pair in pairs] == [1, 2, 3]


@pytest.mark.parametrize("limit, expected", [(0, []), (2, [9, 8]), (99, [9, 8, 7, 6, 5, 4])])
def test_most_confused_stops_at_the_limit(limit, expected):
    pairs = ev.most_confused(np.array([[1, 4, 5], [6, 1, 7], [8, 9, 1]]), limit)
    assert [pair.count for pair in pairs] == expected


def test_most_confused_of_a_perfect_model_is_empty():
    assert ev.most_confused(np.diag([5, 0, 3])) == []


def test_negative_limit_is_refused():
    with pytest.raises(ValueError, match="not -1"):
        ev.most_confused(np.eye(2, dtype=int), -1)


@pytest.mark.parametrize(
    "true, predicted, count, share, sentence",
    [
        ("cat", "dog", 146, 0.146, "146 cats were taken for dogs (14.6 % of all cats)."),
        ("cat", "dog", 1, 0.001, "1 cat was taken for a dog (0.1 % of all cats)."),
        ("deer", "airplane", 1, 1.0, "1 deer was taken for an airplane (100.0 % of all deer)."),
        ("horse", "deer", 2, 0.02, "2 horses were taken for deer (2.0 % of all horses)."),
        ("ship", "automobile", 1, 0.5, "1 ship was taken for an automobile (50.0 % of all ships)."),
    ],
)
def test_sentence_of_cifar10(true, predicted, count, share, sentence):
    pair = ev.ConfusedPair(CIFAR10.index(true), CIFAR10.index(predicted), count, share)
    assert ev.pair_sentence(pair, CIFAR10) == sentence


def test_every_cifar10_class_has_its_words():
    assert list(ev.WORDS) == CIFAR10


@pytest.mark.parametrize(
    "true, predicted, count, sentence",
    [
        (
            "golden retriever", "wolf", 12,
            '12 pictures of "golden retriever" were taken for "wolf"'
            ' (20.0 % of all pictures of "golden retriever").',
        ),
        (
            "n01440764", "Mouse", 1,
            '1 picture of "n01440764" was taken for "Mouse"'
            ' (20.0 % of all pictures of "n01440764").',
        ),
        (
            "cat", "wolf", 2,
            '2 pictures of "cat" were taken for "wolf" (20.0 % of all pictures of "cat").',
        ),
    ],
)  # fmt: skip
def test_sentence_of_any_folder_quotes_the_names(true, predicted, count, sentence):
    assert ev.pair_sentence(ev.ConfusedPair(0, 1, count, 0.2), [true, predicted]) == sentence


@pytest.mark.parametrize(
    "share, percent", [(1 / 50_000, "less than 0.1 %"), (9_999 / 10_000, "more than 99.9 %")]
)
def test_sentence_rounds_some_neither_to_none_nor_to_all(share, percent):
    assert f"({percent} of all cats)" in ev.pair_sentence(
        ev.ConfusedPair(0, 1, 3, share), ["cat", "dog"]
    )


# --- top-k ---------------------------------------------------------------------------------------


def test_top_k_is_sorted_with_ties_to_the_lower_class():
    indices, values = ev.top_k(np.array([0.1, 0.3, 0.3, 0.25, 0.05]), 4)
    assert indices.tolist() == [1, 2, 3, 0]
    assert values.tolist() == [0.3, 0.3, 0.25, 0.1]


def test_top_k_is_clipped_to_the_classes():
    indices, values = ev.top_k(np.array([0.4, 0.6]), 5)
    assert (indices.tolist(), values.tolist()) == ([1, 0], [0.6, 0.4])


@pytest.mark.parametrize(
    "row, k, message",
    [
        ([0.4, 0.6], 0, "k must be 1 or more, not 0"),
        ([[0.4, 0.6]], 1, r"shape \(1, 2\)"),
        ([np.nan, 0.6], 1, "finite"),
    ],
)
def test_top_k_refuses(row, k, message):
    with pytest.raises(ValueError, match=message):
        ev.top_k(np.array(row), k)
