"""What the page says where numbers are unusual: all right, hardly any, too many, one alone."""

from dataclasses import replace
from types import SimpleNamespace

import gradio as gr
import numpy as np
import pytest
from PIL import Image

from tests.factories import CLASSES, VIT, make_context, make_evaluation, make_run
from vitdemo.analyses import class_maps
from vitdemo.analyses.predictions import ImageQuery, comparable_predictions
from vitdemo.errors import DataError
from vitdemo.metrics.calibration import ReliabilityDiagram, describe_worst_bin
from vitdemo.metrics.classification_report import compute_classification_report
from vitdemo.metrics.error_selection import Filters
from vitdemo.page.calibration import (
    describe_both_sides,
    describe_calibration,
    describe_label_smoothing,
    describe_scaled_error,
)
from vitdemo.page.compare.robustness import margin_of_error_note, smallest_size
from vitdemo.page.data import patches
from vitdemo.page.errors import describe_kind
from vitdemo.page.kit import make_cache_folder
from vitdemo.page.look.class_maps.drawing import class_map_panel
from vitdemo.page.metrics.classes import describe_margins_of_error
from vitdemo.runs import Evaluation


def make_reliability(**bins) -> ReliabilityDiagram:
    """Of 15 bins those named b0 to b14, each (answers, mean confidence, share of right ones)."""
    count, right, confidence = np.zeros(15, int), np.zeros(15, int), np.full(15, np.nan)
    for name, (answers, sure, share) in bins.items():
        b = int(name[1:])
        count[b], right[b], confidence[b] = answers, round(answers * share), sure
    return ReliabilityDiagram(np.linspace(0, 1, 16), count, right, confidence)


@pytest.mark.parametrize(
    ("bins", "words"),
    [
        ({"b14": (900, 0.95, 0.90)}, "The model is **overconfident**"),
        ({"b12": (900, 0.85, 0.90)}, "The model is **underconfident**"),
        ({"b12": (900, 0.85, 0.9), "b14": (900, 0.95, 0.9)}, "and underconfident in others**"),
        # as a model that seldom is below 87% but then says nothing of its accuracy
        ({"b9": (600, 0.7, 0.59), "b13": (9000, 0.9, 0.97)}, "**overconfident in some predictions"),
    ],
)
def test_calibration_verdict_names_over_or_underconfidence(bins, words):
    before = make_reliability(**bins)
    mean = {"mean_confidence": np.nansum(before.confidence * before.count) / before.count.sum()}
    mean["accuracy"] = before.correct.sum() / before.count.sum()
    chance = SimpleNamespace(max_calibration_error=0.01)
    found = SimpleNamespace(
        run="vit",
        loss=0.3,
        reliability=before,
        chance=chance,
        scaled=None,
        true_class_target=1.0,
        **mean,
    )
    assert words in describe_calibration(found) and "label smoothing" not in describe_calibration(
        found
    )
    found.true_class_target = 0.91
    less_sure = found.mean_confidence < found.accuracy
    assert (
        "target probability of the true class was 0.91" in describe_calibration(found)
    ) == less_sure
    found.chance.max_calibration_error = 0.2
    assert "This difference is within chance" in describe_calibration(found)


def make_scaled_result(temperature, error, chance):
    after = SimpleNamespace(calibration_error=error)
    return SimpleNamespace(
        temperature=temperature,
        reliability=after,
        chance=SimpleNamespace(max_calibration_error=chance),
    )


def test_effect_of_temperature_is_stated_only_if_measured():
    before = SimpleNamespace(calibration_error=0.08)
    found = SimpleNamespace(
        reliability=before, true_class_target=0.91, mean_confidence=0.9, accuracy=0.97
    )
    for scaled, reduced in (
        (make_scaled_result(0.6, 0.007, 0.004), True),
        (make_scaled_result(0.6, 0.09, 0.004), False),
        (make_scaled_result(1.2, 0.007, 0.004), False),
        (None, False),
    ):
        found.scaled = scaled
        assert ("reduces its underconfidence" in describe_label_smoothing(found)) == reduced
        assert "undoes" not in describe_label_smoothing(found)


def test_scaled_error_is_compared_with_the_scaled_chance_error():
    assert "still **not perfectly calibrated**" in describe_scaled_error(
        make_scaled_result(0.6, 0.0069, 0.0037)
    )
    assert "within chance" in describe_scaled_error(make_scaled_result(0.6, 0.0030, 0.0037))


def test_overconfident_and_underconfident_ranges_are_described():
    words = describe_both_sides(make_reliability(b9=(600, 0.7, 0.59), b13=(9000, 0.9, 0.97)))
    assert "its 600 predictions are **overconfident** (mean confidence 70.0%, 59.0" in words
    assert "its 9,000 predictions are **underconfident** (mean confidence 90.0%" in words
    assert describe_both_sides(make_reliability(b13=(9000, 0.9, 0.97))) == ""
    after = describe_worst_bin(make_reliability(b13=(500, 0.9, 0.586), b14=(9000, 0.97, 0.97)))
    assert "the 500 predictions with 87 to 93% confidence have an accuracy of 58.6%" in after
    assert describe_worst_bin(make_reliability(b14=(9000, 0.97, 0.97))) == ""
    few = {"b7": (9, 0.5, 1 / 9)}  # far off, which of two bins one may be by chance
    assert describe_worst_bin(make_reliability(**few, b14=(9000, 0.97, 0.97))) == ""
    assert "the 4,000 predictions" in describe_worst_bin(
        make_reliability(**few, b13=(4000, 0.9, 0.87))
    )


def test_perfect_accuracy_has_a_confidence_interval(tmp_path):
    found = make_evaluation(0)
    found.probabilities[:] = np.eye(len(CLASSES))[found.labels]
    words = describe_margins_of_error(
        compute_classification_report(make_run(tmp_path / "vit", tested=found))
    )
    # Wilson's intervals of 200 of 200 and of 20 of 20
    assert (
        "about ±0.9 percentage points for accuracy and ±8.1 for the recall of one class." in words
    )
    # Of a difference the variances add up: 0.94 and 8.06 times the square root of 2
    assert "±1.3 points for accuracy, so a difference of 1 point is not significant" in words
    assert "±11.4 points for recall, so a difference of 1 point is not significant" in words
    note = margin_of_error_note({"vit": [1.0, 0.0]}, 100)
    assert "at most ±1.8 percentage points" in note and "±2.6 for a difference" in note


def test_interval_of_a_difference_is_wider_than_of_one_value(tmp_path):
    # Of 10,000 test images 90% correct: accuracy ±0.59 points, recall of 1,000 images ±1.86
    labels = np.repeat(np.arange(10), 1000)
    predicted = np.where(np.arange(10_000) % 1000 < 900, labels, (labels + 1) % 10)
    shares = np.eye(10, dtype=np.float32)[predicted]
    tested = Evaluation(shares, labels, "0" * 16, 0.001)
    words = describe_margins_of_error(
        compute_classification_report(make_run(tmp_path / "vit", tested=tested))
    )
    assert "±0.6 percentage points for accuracy and ±1.9 for the recall" in words
    assert "±0.8 points for accuracy, so a difference of 1 point is significant" in words
    assert "±2.6 points for recall, so a difference of 1 point is not significant" in words


def test_run_without_images_is_reported_and_others_are_counted():
    def size(run):
        if run == "foreign":
            raise DataError("of other classes")
        return {"small": 40, "large": 1000}[run]

    assert smallest_size(["large", "foreign", "small"], size) == (40, ["of other classes"])
    assert smallest_size(["foreign"], size) == (0, ["of other classes"])


@pytest.mark.parametrize("kind", ["only_right", "all_wrong"])
def test_single_model_has_nothing_to_compare(tmp_path, kind):
    make_run(tmp_path / "vit")
    words = describe_kind(
        comparable_predictions(make_context(tmp_path), "vit"), ImageQuery("vit", Filters(kind))
    )
    assert words == "Only vit was tested on these images, so there is nothing to compare."


@pytest.mark.parametrize("stem", ["patch", "conv"])
def test_overlapping_tokens_are_not_described_as_patches(tmp_path, stem):
    run = make_run(tmp_path / "vit", replace(VIT, options=VIT.options | {"stem": stem}))
    alone = stem == "patch"
    picture = Image.fromarray(np.arange(768, dtype=np.uint8).reshape(16, 16, 3))
    words = patches.patch_blocks(make_context(tmp_path), run, picture)[0].text
    assert ("The 4 × 4 × 3 = 48 values of a patch are projected" in words) == alone
    assert "a vector of 24 numbers" in words and "receives 16 patch tokens" in words
    assert ("also read a few pixels around each patch" in words) != alone
    assert (
        "drop" in class_maps.compute_class_maps(make_context(tmp_path), run, picture).fills
    ) == alone


def test_strongest_patch_text_says_supports_or_opposes(tmp_path):
    found = class_maps.compute_class_maps(
        make_context(tmp_path), make_run(tmp_path / "vit"), Image.new("RGB", (16, 16))
    )
    signed = next(m for m in found.maps if m.is_signed)
    values = np.zeros((4, 4), np.float32)
    values[0, 0], values[2, 3] = 0.2, -1
    for sign, side in ((1, "opposes"), (-1, "supports")):
        drawn = class_map_panel(found, replace(signed, values=sign * values), None, "mean")
        assert drawn.lines[0] == f"strongest in row 3, column 4 of 4 × 4, {side} the class"


def test_saved_files_are_in_the_gradio_cache():
    button = gr.DownloadButton()
    first, second = make_cache_folder(button), make_cache_folder(button)
    assert first != second
    assert {str(first.parent), str(second.parent)} == {button.GRADIO_CACHE}
    first.rmdir(), second.rmdir()
