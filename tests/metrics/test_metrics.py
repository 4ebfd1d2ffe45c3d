"""`vitdemo.metrics` compared with scikit-learn, hand-worked examples and degenerate test sets."""

import numpy as np
import pytest
from sklearn import metrics as sk

from vitdemo import metrics as ev
from vitdemo.metrics import calibration, intervals, paired, ranking_curves

# These five images of three classes are predicted as 0 1 1 2 0.
PROBABILITIES = np.array(
    [[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.5, 0.1, 0.4]]
)
LABELS = np.array([0, 0, 1, 2, 2])
BAD_CELLS = np.array([[0, 0, 0], [0, 0, 0], [1, 0, 0], [0, 0, 0], [0, 1, 1]], bool)
METRIC_NAMES = ("precision", "recall", "f1", "roc_auc")


def draw_predictions(seed, n=300, c=7):
    """Draw float32 probabilities (N, C) with an accuracy above chance, and labels (N,)."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, c, n)
    logits = rng.normal(size=(n, c)) + 1.5 * np.eye(c)[labels]
    odds = np.exp(logits)
    return (odds / odds.sum(axis=1, keepdims=True)).astype(np.float32), labels


def one_hot(predicted, c):
    return np.eye(c)[predicted]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_confusion_matrix_is_exact_for_all_float_types(dtype):
    probabilities, labels = draw_predictions(0, n=500, c=200)
    columns = np.asfortranarray(probabilities, dtype=dtype)  # the order forces sums in this dtype
    expected = sk.confusion_matrix(labels, columns.argmax(1), labels=range(200))
    matrix = ev.confusion_matrix(columns, labels.astype(np.uint8))  # uint8 cannot hold a cell index
    np.testing.assert_array_equal(matrix, expected)


@pytest.mark.parametrize(
    "probabilities, labels, message",
    [
        (np.ones(5), LABELS, r"numbers \(N, C\), not float64 of shape \(5,\)"),
        (PROBABILITIES.astype(str), LABELS, "must be numbers"),
        (PROBABILITIES, LABELS[:4], r"shape \(5,\), not int64 of shape \(4,\)"),
        (PROBABILITIES, LABELS.astype(float), "integers.*not float64"),
        (np.ones((0, 3)), LABELS[:0], "nothing to evaluate: 0 images"),
        (np.ones((5, 0)), LABELS, "0 classes"),
        (PROBABILITIES, np.array([0, 0, 1, 3, 3]), "outside 0 to 2 in 2 of 5 rows.*row 3"),
        (PROBABILITIES, np.array([0, -1, 1, 2, 2]), "outside 0 to 2 in 1 of 5 rows.*row 1"),
        (PROBABILITIES + 0.001, LABELS, "do not sum to one within 0.001 in 5 of 5 rows"),
        # The last row sums to one despite its negative value.
        ([*PROBABILITIES[:4], [-0.1, 0.5, 0.6]], LABELS, "negative .* in 1 of 5 rows.*row 4"),
        *[
            (np.where(BAD_CELLS, bad, PROBABILITIES), LABELS, "NaN or inf.* in 2 of 5 rows.*row 2,")
            for bad in (np.nan, np.inf, -np.inf)
        ],
    ],
)
def test_invalid_input_errors_name_the_problem_and_the_row(probabilities, labels, message):
    with pytest.raises(ValueError, match=message):
        ev.check_predictions(probabilities, labels)


@pytest.mark.parametrize(
    "metric",
    [
        ev.compute_accuracy,
        ev.confusion_matrix,
        ev.compute_class_metrics,
        calibration.compute_reliability,
        calibration.negative_log_likelihood,
        calibration.fit_temperature,
        ranking_curves.average_precision_by_class,
        lambda p, y: ranking_curves.compute_roc_curve(p, y, 0),
        lambda p, y: ranking_curves.compute_precision_recall_curve(p, y, 0),
        lambda p, y: ranking_curves.top_k_accuracy(p, y, 1),
        lambda p, y: intervals.ranking_interval(p, y, 0),
        paired.is_correct,
    ],
)
def test_all_metrics_reject_nan(metric):
    with pytest.raises(ValueError, match="NaN or infinite probabilities in 5 of 5 rows"):
        metric(PROBABILITIES * np.nan, LABELS)


def test_metrics_equal_scikit_learn():
    probabilities, labels = draw_predictions(0)
    predicted, truth = probabilities.argmax(axis=1), np.eye(7)[labels]
    metrics = ev.compute_class_metrics(probabilities, labels)
    expected = sk.precision_recall_fscore_support(labels, predicted, labels=range(7))
    for name, values in zip(("precision", "recall", "f1", "support"), expected, strict=True):
        np.testing.assert_allclose(getattr(metrics, name), values)
    areas = sk.roc_auc_score(truth, probabilities, average=None)
    np.testing.assert_allclose(metrics.roc_auc, areas)
    precisions = sk.average_precision_score(truth, probabilities, average=None)
    np.testing.assert_allclose(
        ranking_curves.average_precision_by_class(probabilities, labels), precisions
    )
    assert ev.compute_accuracy(probabilities, labels) == sk.accuracy_score(labels, predicted)


def test_confusion_rows_are_true_classes_and_ties_go_to_the_lower_class():
    assert ev.confusion_matrix(PROBABILITIES, LABELS).tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 1]]
    assert ev.confusion_matrix(np.array([[0.2, 0.4, 0.4]]), np.array([2]))[2].tolist() == [0, 1, 0]


def test_never_predicted_class_has_zero_f1_but_valid_ranking_metrics():
    probabilities, labels = np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([0, 1])
    metrics = ev.compute_class_metrics(probabilities, labels)
    assert (metrics.precision[1], metrics.recall[1], metrics.f1[1]) == (0, 0, 0)
    assert metrics.roc_auc.tolist() == [1, 1]
    assert ranking_curves.average_precision_by_class(probabilities, labels).tolist() == [1, 1]


@pytest.mark.parametrize("predicted", [[0, 1, 1], [0, 1, 2]], ids=["never predicted", "predicted"])
def test_metrics_of_a_class_without_images_are_nan(predicted):
    probabilities, labels = one_hot(predicted, 3), np.array([0, 1, 1])
    metrics = ev.compute_class_metrics(probabilities, labels)
    assert all(
        np.isnan(getattr(metrics, name)).tolist() == [False, False, True] for name in METRIC_NAMES
    )
    assert metrics.support.tolist() == [1, 2, 0]
    precisions = ranking_curves.average_precision_by_class(probabilities, labels)
    assert np.isnan(precisions).tolist() == [False, False, True]


def test_only_roc_auc_is_nan_if_all_images_have_one_class():
    for probabilities in (np.ones((2, 1)), one_hot([0, 1], 2)):
        metrics = ev.compute_class_metrics(probabilities, np.array([0, 0]))
        assert np.isnan(metrics.roc_auc).all()
        recall = probabilities[:, 0].mean()
        assert (metrics.precision[0], metrics.recall[0]) == (1, recall)
        assert metrics.f1[0] == pytest.approx(2 * recall / (1 + recall))


def test_one_image_per_class_does_not_warn():
    metrics = ev.compute_class_metrics(np.eye(30), np.arange(30))
    assert all((getattr(metrics, name) == 1).all() for name in METRIC_NAMES)


def test_most_confused_pairs_match_a_hand_worked_example():
    matrix = np.array([[90, 10, 0], [4, 15, 1], [10, 0, 30]])
    expected = [
        ev.ConfusedPair(0, 1, 10, 0.1),  # the true class breaks ties
        ev.ConfusedPair(2, 0, 10, 0.25),
        ev.ConfusedPair(1, 0, 4, 0.2),
        ev.ConfusedPair(1, 2, 1, 0.05),
    ]
    assert ev.most_confused_pairs(matrix, 2) == expected[:2]
    assert ev.most_confused_pairs(matrix, 99) == expected
    pairs = ev.most_confused_pairs(np.array([[0, 2, 2, 2]] + [[0] * 4] * 3), 9)
    assert [pair.predicted for pair in pairs] == [1, 2, 3]
    assert ev.most_confused_pairs(np.diag([5, 0, 3]), 9) == []


@pytest.mark.parametrize(
    "true, predicted, count, fraction, sentence",
    [
        ("cat", "dog", 146, 0.146, "146 cats were predicted as dogs (14.6% of all cats)."),
        ("cat", "dog", 1, 0.001, "1 cat was predicted as a dog (0.1% of all cats)."),
        ("deer", "airplane", 1, 1.0, "1 deer was predicted as an airplane (100.0% of all deer)."),
        # Percentages are not rounded to 0% or 100%.
        ("cat", "dog", 3, 1 / 5e4, "3 cats were predicted as dogs (less than 0.1% of all cats)."),
        ("cat", "dog", 3, 0.9999, "3 cats were predicted as dogs (more than 99.9% of all cats)."),
        # Names other than CIFAR-10 classes are quoted.
        (
            "n01440764", "Mouse", 1, 0.2,
            '1 image of "n01440764" was predicted as "Mouse"'
            ' (20.0% of all images of "n01440764").',
        ),
        (
            "cat", "wolf", 2, 0.2,
            '2 images of "cat" were predicted as "wolf" (20.0% of all images of "cat").',
        ),
    ],
)  # fmt: skip
def test_pair_description_states_count_names_and_percentage(
    true, predicted, count, fraction, sentence
):
    assert ev.describe_pair(ev.ConfusedPair(0, 1, count, fraction), [true, predicted]) == sentence


def test_top_k_is_sorted_and_limited_to_the_number_of_classes():
    indices, values = ev.top_k_classes(np.array([0.1, 0.3, 0.3, 0.25, 0.05]), 4)
    assert indices.tolist() == [1, 2, 3, 0]
    assert values.tolist() == [0.3, 0.3, 0.25, 0.1]
    assert ev.top_k_classes(np.array([0.4, 0.6]), 5)[0].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("row", "k", "message"),
    [
        ([0.4, 0.6], 0, "k must be 1 or more, not 0"),
        ([[0.4, 0.6]], 1, r"shape \(1, 2\)"),
        ([np.nan, 0.6], 1, "finite"),
    ],
)
def test_top_k_of_invalid_arguments_is_rejected(row, k, message):
    with pytest.raises(ValueError, match=message):
        ev.top_k_classes(np.array(row), k)
