"""`metrics.calibration` compared with hand-worked cases and models of known calibration."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from tests.metrics.test_metrics import LABELS, PROBABILITIES, one_hot
from vitdemo.metrics import calibration, compute_accuracy


def draw_miscalibrated(temperature, n=20_000, c=5, seed=0):
    """Draw probabilities of a model whose logits are `temperature` times too large, and labels."""
    rng = np.random.default_rng(seed)
    logits = torch.from_numpy(2 * rng.normal(size=(n, c)))
    truth = logits.softmax(1)
    labels = torch.multinomial(truth, 1, generator=torch.Generator().manual_seed(seed))[:, 0]
    return (temperature * logits).softmax(1).float().numpy(), labels.numpy()


def test_reliability_matches_hand_worked_bins(monkeypatch):
    monkeypatch.setattr(calibration, "NUM_BINS", 4)
    # The bin [0.5, 0.75) has the correct 0.7 and 0.6 and the incorrect 0.6 and 0.5.
    reliability = calibration.compute_reliability(PROBABILITIES, LABELS)
    assert reliability.edges.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert reliability.count.tolist() == [0, 0, 4, 1]
    assert reliability.correct.tolist() == [0, 0, 2, 1]
    assert reliability.incorrect.tolist() == [0, 0, 2, 0]
    np.testing.assert_allclose(reliability.confidence, [math.nan, math.nan, 0.6, 0.8])
    np.testing.assert_allclose(reliability.accuracy, [math.nan, math.nan, 0.5, 1])
    assert reliability.calibration_error == pytest.approx((4 * 0.1 + 0.2) / 5)


def test_bins_include_the_lower_edge_and_the_last_one_both_edges(monkeypatch):
    for certain in (one_hot([1, 0], 2), np.ones((2, 1))):
        labels = np.array([0, 0])
        reliability = calibration.compute_reliability(certain, labels)
        assert reliability.count.tolist() == [0] * 14 + [2]
        assert reliability.calibration_error == 1 - compute_accuracy(certain, labels)
    monkeypatch.setattr(calibration, "NUM_BINS", 2)
    # The upper bin contains both 0.5 and 0.9; in separate bins, the error would be 0.7.
    probabilities = np.array([[0.5, 0.5], [0.9, 0.1]])
    reliability = calibration.compute_reliability(probabilities, np.array([0, 1]))
    assert reliability.count.tolist() == [0, 2]
    assert reliability.calibration_error == pytest.approx(0.2)


def test_negative_log_likelihood_is_finite_at_zero_probability():
    expected = -np.log([0.7, 0.3, 0.8, 0.6, 0.4]).mean()
    assert calibration.negative_log_likelihood(PROBABILITIES, LABELS) == pytest.approx(expected)
    loss = calibration.negative_log_likelihood(one_hot([1, 0], 2), np.array([0, 0]))
    assert loss == pytest.approx(-math.log(np.finfo(np.float32).tiny) / 2)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5])
def test_fit_temperature_recovers_the_true_temperature(temperature):
    fitted = calibration.fit_temperature(*draw_miscalibrated(temperature))
    assert fitted == pytest.approx(temperature, rel=0.04)


def test_temperature_scaling_matches_hand_worked_values():
    # T = 2 takes square roots, so the ratio is 5 : 4.
    scaled = calibration.apply_temperature(np.array([[25 / 41, 16 / 41]]), 2)
    np.testing.assert_allclose(scaled, [[5 / 9, 4 / 9]])
    np.testing.assert_allclose(calibration.apply_temperature(PROBABILITIES, 1), PROBABILITIES)
    np.testing.assert_allclose(calibration.apply_temperature(PROBABILITIES, 1e9), 1 / 3)


@pytest.mark.parametrize("temperature", [0, -1, math.nan, math.inf])
def test_invalid_temperatures_are_rejected(temperature):
    with pytest.raises(ValueError, match="temperature must be above 0"):
        calibration.apply_temperature(PROBABILITIES, temperature)


def test_fitted_temperature_is_bounded_and_one_if_it_has_no_effect():
    probabilities, labels = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 1])
    for targets, limit in zip((labels, 1 - labels), calibration.TEMPERATURE_RANGE, strict=True):
        fitted = calibration.fit_temperature(probabilities, targets)
        assert fitted == pytest.approx(limit, rel=1e-3)
    for uniform in (np.ones((3, 1)), np.full((3, 4), 0.25)):
        assert calibration.fit_temperature(uniform, np.zeros(3, dtype=int)) == 1


def test_two_sides_are_split_where_the_confidence_gaps_differ_most():
    rng = np.random.default_rng(0)
    confidence = np.repeat([0.55, 0.65, 0.85, 0.95], 1000)  # two classes
    correct = rng.random(4000) < np.repeat([0.45, 0.55, 0.95, 0.99], 1000)
    probabilities = np.stack([confidence, 1 - confidence], axis=1)
    reliability = calibration.compute_reliability(probabilities, np.where(correct, 0, 1))
    low, high = calibration.split_by_overconfidence(reliability)
    assert (low.high, high.low) == (high.low, low.high) and 0.65 < low.high < 0.85
    assert (low.count, high.count) == (2000, 2000)
    assert (low.confidence, high.confidence) == pytest.approx((0.6, 0.9))
    assert low.accuracy == correct[:2000].mean() and high.accuracy == correct[2000:].mean()
    labels = np.where(rng.random(4000) < confidence, 0, 1)  # calibrated
    reliability = calibration.compute_reliability(probabilities, labels)
    assert calibration.split_by_overconfidence(reliability) is None


def test_calibrated_models_lie_within_the_95_percent_chance_range(monkeypatch):
    monkeypatch.setattr(calibration, "NUM_RESAMPLES", 200)
    inside, bands = [], []
    for seed in range(60):
        probabilities, labels = draw_miscalibrated(1.0, n=800, seed=seed)
        chance = calibration.compute_chance_calibration(probabilities)
        reliability = calibration.compute_reliability(probabilities, labels)
        filled = reliability.count > 0
        inside.append(reliability.calibration_error <= chance.max_calibration_error)
        accuracy = reliability.accuracy[filled]
        low, high = chance.band[:, filled]
        bands += list((low - 1e-9 <= accuracy) & (accuracy <= high + 1e-9))
    assert 0.85 <= np.mean(inside) <= 1
    assert 0.92 <= np.mean(bands) <= 0.99
    overconfident = draw_miscalibrated(2.5, n=2000)
    assert (
        calibration.compute_reliability(*overconfident).calibration_error
        > 2 * calibration.compute_chance_calibration(overconfident[0]).max_calibration_error
    )


def test_chance_range_is_binomial_and_has_no_width_at_certainty():
    chance = calibration.compute_chance_calibration(np.full((1000, 2), 0.5))
    expected = stats.binom(1000, 0.5).ppf([0.025, 0.975]) / 1000
    np.testing.assert_allclose(chance.band[:, 7], expected, atol=3e-3)
    assert np.isnan(chance.band[:, :7]).all()
    chance = calibration.compute_chance_calibration(one_hot([1, 0], 2))
    assert chance.max_calibration_error == 0 and chance.band[:, 14].tolist() == [1, 1]
