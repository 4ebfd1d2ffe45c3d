"""Texts of the page for unusual numbers: all correct, very few, or a single model."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from tests.support.factories import CLASSES, VIT, make_context, make_evaluation, make_run
from vitdemo.analyses import class_attribution
from vitdemo.analyses.predictions import comparable_predictions
from vitdemo.metrics.calibration import ReliabilityDiagram, describe_worst_bin
from vitdemo.metrics.classification_report import compute_classification_report
from vitdemo.page.explore.class_attribution.blocks import describe_strongest
from vitdemo.page.explore.inside import patches
from vitdemo.page.results.compare.robustness import margin_of_error_note
from vitdemo.page.results.errors import describe_kind
from vitdemo.report.calibration import (
    describe_both_sides,
    describe_calibration,
    describe_label_smoothing,
    describe_scaled_error,
)
from vitdemo.report.class_metrics import describe_margins_of_error
from vitdemo.runs import Evaluation


def make_reliability(**bins) -> ReliabilityDiagram:
    """Build 15 bins; b0 to b14 set (predictions, mean confidence, accuracy) of a bin."""
    count, correct, confidence = np.zeros(15, int), np.zeros(15, int), np.full(15, np.nan)
    for name, (predictions, mean, accuracy) in bins.items():
        b = int(name[1:])
        count[b], correct[b], confidence[b] = predictions, round(predictions * accuracy), mean
    return ReliabilityDiagram(np.linspace(0, 1, 16), count, correct, confidence)


@pytest.mark.parametrize(
    ("bins", "text"),
    [
        ({"b14": (900, 0.95, 0.90)}, "The model is **overconfident**"),
        ({"b12": (900, 0.85, 0.90)}, "The model is **underconfident**"),
        ({"b12": (900, 0.85, 0.9), "b14": (900, 0.95, 0.9)}, "and underconfident in others**"),
        # rarely below 87% confidence, but then far too confident
        ({"b9": (600, 0.7, 0.59), "b13": (9000, 0.9, 0.97)}, "**overconfident in some predictions"),
    ],
)
def test_calibration_verdict_names_over_or_underconfidence(bins, text):
    before = make_reliability(**bins)
    mean = {"mean_confidence": np.nansum(before.confidence * before.count) / before.count.sum()}
    mean["accuracy"] = before.correct.sum() / before.count.sum()
    chance = SimpleNamespace(max_calibration_error=0.01)
    report = SimpleNamespace(
        run="vit",
        loss=0.3,
        reliability=before,
        chance=chance,
        scaled=None,
        true_class_target=1.0,
        **mean,
    )
    found = describe_calibration(report)
    assert text in found and "label smoothing" not in found
    report.true_class_target = 0.91
    underconfident = report.mean_confidence < report.accuracy
    told = "target probability of the true class was 0.91" in describe_calibration(report)
    assert told == underconfident
    report.chance.max_calibration_error = 0.2
    assert "This error is within the range expected by chance" in describe_calibration(report)


def make_scaled_result(temperature, error, chance):
    reliability = SimpleNamespace(calibration_error=error)
    by_chance = SimpleNamespace(max_calibration_error=chance)
    return SimpleNamespace(temperature=temperature, reliability=reliability, chance=by_chance)


def test_effect_of_temperature_is_stated_only_if_measured():
    reliability = SimpleNamespace(calibration_error=0.08)
    report = SimpleNamespace(
        reliability=reliability, true_class_target=0.91, mean_confidence=0.9, accuracy=0.97
    )
    for scaled, reduced in (
        (make_scaled_result(0.6, 0.007, 0.004), True),
        (make_scaled_result(0.6, 0.09, 0.004), False),
        (make_scaled_result(1.2, 0.007, 0.004), False),
        (None, False),
    ):
        report.scaled = scaled
        assert ("reduces the underconfidence" in describe_label_smoothing(report)) == reduced
        assert "undoes" not in describe_label_smoothing(report)


def test_scaled_error_is_compared_with_the_scaled_chance_error():
    assert "still **not perfectly calibrated**" in describe_scaled_error(
        make_scaled_result(0.6, 0.0069, 0.0037)
    )
    assert "expected by chance" in describe_scaled_error(make_scaled_result(0.6, 0.0030, 0.0037))


def test_overconfident_and_underconfident_ranges_are_described():
    text = describe_both_sides(make_reliability(b9=(600, 0.7, 0.59), b13=(9000, 0.9, 0.97)))
    assert "its 600 predictions are **overconfident** (mean confidence 70.0%, 59.0" in text
    assert "its 9,000 predictions are **underconfident** (mean confidence 90.0%" in text
    assert describe_both_sides(make_reliability(b13=(9000, 0.9, 0.97))) == ""
    worst_bin = describe_worst_bin(make_reliability(b13=(500, 0.9, 0.586), b14=(9000, 0.97, 0.97)))
    assert "the 500 predictions with 87 to 93% confidence have an accuracy of 58.6%" in worst_bin
    assert describe_worst_bin(make_reliability(b14=(9000, 0.97, 0.97))) == ""
    few = {"b7": (9, 0.5, 1 / 9)}  # far off, but possible by chance
    assert describe_worst_bin(make_reliability(**few, b14=(9000, 0.97, 0.97))) == ""
    worst_bin = describe_worst_bin(make_reliability(**few, b13=(4000, 0.9, 0.87)))
    assert "the 4,000 predictions" in worst_bin


def test_perfect_accuracy_has_a_confidence_interval(tmp_path):
    evaluation = make_evaluation(0)
    evaluation.probabilities[:] = np.eye(len(CLASSES))[evaluation.labels]
    text = describe_margins_of_error(
        compute_classification_report(make_run(tmp_path / "vit", tested=evaluation))
    )
    # Wilson intervals for 200 of 200 and for 20 of 20.
    assert "about ±0.9 percentage points for accuracy and ±8.1 for the recall of one class." in text
    # The variances of a difference add up: 0.94 and 8.06 times the square root of 2.
    assert "±1.3 points for accuracy, so a difference of 1 point is not significant" in text
    assert "±11.4 points for recall, so a difference of 1 point is not significant" in text
    note = margin_of_error_note({"vit": [1.0, 0.0]}, 100)
    assert "at most ±1.8 percentage points" in note and "±2.6 for the difference" in note


def test_interval_of_a_difference_is_wider_than_of_one_value(tmp_path):
    # 90% of 10,000 images: accuracy ±0.59 points, recall over 1,000 images ±1.86.
    labels = np.repeat(np.arange(10), 1000)
    predicted = np.where(np.arange(10_000) % 1000 < 900, labels, (labels + 1) % 10)
    probabilities = np.eye(10, dtype=np.float32)[predicted]
    evaluation = Evaluation(probabilities, labels, "0" * 16, 0.001)
    text = describe_margins_of_error(
        compute_classification_report(make_run(tmp_path / "vit", tested=evaluation))
    )
    assert "±0.6 percentage points for accuracy and ±1.9 for the recall" in text
    assert "±0.8 points for accuracy, so a difference of 1 point is significant" in text
    assert "±2.6 points for recall, so a difference of 1 point is not significant" in text


@pytest.mark.parametrize("kind", ["only_right", "all_wrong"])
def test_single_model_has_nothing_to_compare(tmp_path, kind):
    make_run(tmp_path / "vit")
    text = describe_kind(comparable_predictions(make_context(tmp_path), "vit"), "vit", kind)
    assert text == "Only vit was tested on these images, so there is nothing to compare."


@pytest.mark.parametrize("stem", ["patch", "conv"])
def test_overlapping_tokens_are_not_described_as_patches(tmp_path, stem):
    run = make_run(tmp_path / "vit", replace(VIT, options=VIT.options | {"stem": stem}))
    separate = stem == "patch"
    image = Image.fromarray(np.arange(768, dtype=np.uint8).reshape(16, 16, 3))
    text = patches.patch_blocks(make_context(tmp_path), run, image)[1].text
    assert ("The 4 × 4 × 3 = 48 values of a patch are projected" in text) == separate
    assert "a vector of 24 numbers" in text and "receives 16 patch tokens" in text
    assert ("also read a few pixels around each patch" in text) != separate
    maps = class_attribution.compute_class_attribution(make_context(tmp_path), run, image)
    assert ("drop" in maps.fills) == separate


def test_strongest_patch_text_says_supports_or_opposes(tmp_path):
    result = class_attribution.compute_class_attribution(
        make_context(tmp_path), make_run(tmp_path / "vit"), Image.new("RGB", (16, 16))
    )
    signed = next(m for m in result.maps if m.is_signed)
    values = np.zeros((4, 4), np.float32)
    values[0, 0], values[2, 3] = 0.2, -1
    for sign, side in ((1, "opposes"), (-1, "supports")):
        text = describe_strongest(replace(signed, values=sign * values))
        assert text == f"strongest patch in row 3 of 4, column 4 of 4 ({side} the class)"
