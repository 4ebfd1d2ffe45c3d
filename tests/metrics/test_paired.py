"""`metrics.paired` compared with the binomial test of scipy and hand-worked cases."""

import math

import numpy as np
import pytest
from scipy import stats

from tests.metrics.test_metrics import draw_predictions
from vitdemo.metrics import compute_accuracy, paired
from vitdemo.metrics.paired import McNemarResult


def make_correctness(first_only, second_only, both=3, neither=2):
    """Return for two models whether each image is classified correctly, from counts of images."""
    cells = [(True, False)] * first_only + [(False, True)] * second_only
    cells += [(True, True)] * both + [(False, False)] * neither
    return (np.array(side, dtype=bool) for side in zip(*cells, strict=True))


@pytest.mark.parametrize("a, b", [(0, 1), (5, 5), (9, 2), (2, 9), (30, 14)])
def test_p_value_equals_the_exact_binomial_test(a, b):
    test = paired.mcnemar(*make_correctness(a, b))
    assert (test.both, test.first_only, test.second_only, test.n) == (3, a, b, a + b + 5)
    assert test.p == pytest.approx(stats.binomtest(a, a + b).pvalue)


def test_difference_equals_the_difference_of_the_accuracies():
    (one, labels), (two, _) = draw_predictions(0), draw_predictions(1)
    test = paired.mcnemar(paired.is_correct(one, labels), paired.is_correct(two, labels))
    accuracies = compute_accuracy(one, labels), compute_accuracy(two, labels)
    assert (test.first_accuracy, test.second_accuracy) == pytest.approx(accuracies)
    assert test.difference == pytest.approx(accuracies[0] - accuracies[1])
    assert test.interval[0] < test.difference < test.interval[1]


def test_equal_predictions_have_p_1_and_no_images_nan():
    assert paired.mcnemar(*make_correctness(0, 0)).p == 1
    none = paired.mcnemar(np.ones(0, bool), np.ones(0, bool))
    assert none.n == 0 and np.isnan([none.p, none.difference, *none.interval]).all()


@pytest.mark.parametrize("second", [np.ones(3, int), np.ones(2, bool)])
def test_unpaired_arrays_are_rejected(second):
    with pytest.raises(ValueError, match="bool arrays of the same length"):
        paired.mcnemar(np.ones(3, bool), second)


@pytest.mark.parametrize(
    ("p", "adjusted"),
    [
        # The factors are 4 to 1 in ascending order; no value is below its predecessor.
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.4, math.nan, 0.9], [0.8, math.nan, 0.9]),
        ([0.8, 0.9], [1, 1]),
        ([], []),
        ([math.nan], [math.nan]),
    ],
)
def test_holm_correction_matches_hand_worked_values(p, adjusted):
    np.testing.assert_allclose(paired.holm(p), adjusted)


NOT_SIGNIFICANT, SIGNIFICANT = "difference is not significant", "difference is significant"


@pytest.mark.parametrize(
    ("counts", "p", "name", "text"),
    [
        (
            (312, 120, 1000), 1e-9, "cat",
            f"312 cats, and only b is correct on 120. The {SIGNIFICANT} (p < 0.001).",
        ),
        (
            (1, 0, 10), 1.0, "cat",
            f"1 cat, and only b is correct on 0. The {NOT_SIGNIFICANT} (p = 1.00).",
        ),
        (
            (1312, 1120, 10_000), 0.0123, None,
            f"1,312 images, and only b is correct on 1,120. The {SIGNIFICANT} (p = 0.012).",
        ),
        (
            (1, 3, 8), 0.625, "n01",
            f'1 image of "n01", and only b is correct on 3. The {NOT_SIGNIFICANT} (p = 0.62).',
        ),
    ],
)  # fmt: skip
def test_mcnemar_sentence_states_counts_and_significance(counts, p, name, text):
    expected = f"Only a is correct on {text}"
    assert paired.describe_mcnemar(McNemarResult(0, *counts, p), "a", "b", name) == expected


def test_mcnemar_sentence_reports_no_difference_and_no_images():
    equal = paired.describe_mcnemar(McNemarResult(0, 0, 0, 8, 1.0), "a", "b", "deer")
    assert equal == "a and b are correct on the same deer, so there is no difference."
    empty = paired.describe_mcnemar(McNemarResult(0, 0, 0, 0, math.nan), "a", "b", "n01")
    assert empty == 'There are no images of "n01", so there is nothing to compare.'


def test_significance_is_decided_by_the_corrected_p_value():
    test = McNemarResult(0, 12, 3, 100, 0.035)
    assert f"{SIGNIFICANT} (p = 0.035)" in paired.describe_mcnemar(test, "a", "b")
    assert f"{NOT_SIGNIFICANT} (p = 0.35)" in paired.describe_mcnemar(test, "a", "b", p=0.35)
