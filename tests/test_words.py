"""What the page says where numbers are unusual: all right, hardly any, too many, one alone."""

from dataclasses import replace
from types import SimpleNamespace

import gradio as gr
import numpy as np
import pytest
from PIL import Image

from tests.making import CLASSES, VIT, bench, evaluation, make_run
from vitdemo import class_maps
from vitdemo.errors import DataError
from vitdemo.metrics.calibration import Reliability, rest_words
from vitdemo.metrics.errors import Filters
from vitdemo.metrics.tested_runs import class_table
from vitdemo.page.calibration import scaled_verdict, sides_words, smoothing_words, verdict
from vitdemo.page.compare.robustness import doubt, least
from vitdemo.page.data import patches
from vitdemo.page.errors import kind_words
from vitdemo.page.kit import cache_folder
from vitdemo.page.look.class_maps.drawing import panel
from vitdemo.page.metrics.classes import point_words
from vitdemo.predictions import Query, predictions
from vitdemo.runs import Evaluation


def reliability_of(**bins) -> Reliability:
    """Of 15 bins those named b0 to b14, each (answers, mean confidence, share of right ones)."""
    count, right, confidence = np.zeros(15, int), np.zeros(15, int), np.full(15, np.nan)
    for name, (answers, sure, share) in bins.items():
        b = int(name[1:])
        count[b], right[b], confidence[b] = answers, round(answers * share), sure
    return Reliability(np.linspace(0, 1, 16), count, right, confidence)


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
def test_the_verdict_of_calibration_names_the_side_only_where_there_is_one(bins, words):
    before = reliability_of(**bins)
    mean = {"mean_confidence": np.nansum(before.confidence * before.count) / before.count.sum()}
    mean["accuracy"] = before.right.sum() / before.count.sum()
    chance = SimpleNamespace(error=0.01)
    found = SimpleNamespace(
        run="vit", loss=0.3, before=before, chance=chance, scaled=None, target=1.0, **mean
    )
    assert words in verdict(found) and "label smoothing" not in verdict(found)
    found.target = 0.91
    less_sure = found.mean_confidence < found.accuracy
    assert ("target probability of the true class was 0.91" in verdict(found)) == less_sure
    found.chance.error = 0.2
    assert "This difference is within chance" in verdict(found)


def scaled_of(temperature, error, chance):
    after = SimpleNamespace(error=error)
    return SimpleNamespace(
        temperature=temperature, reliability=after, chance=SimpleNamespace(error=chance)
    )


def test_an_effect_of_the_temperature_is_stated_only_where_it_was_measured():
    before = SimpleNamespace(error=0.08)
    found = SimpleNamespace(before=before, target=0.91, mean_confidence=0.9, accuracy=0.97)
    for scaled, reduced in (
        (scaled_of(0.6, 0.007, 0.004), True),
        (scaled_of(0.6, 0.09, 0.004), False),
        (scaled_of(1.2, 0.007, 0.004), False),
        (None, False),
    ):
        found.scaled = scaled
        assert ("reduces its underconfidence" in smoothing_words(found)) == reduced
        assert "undoes" not in smoothing_words(found)


def test_the_error_after_scaling_is_compared_with_the_chance_of_the_scaled_probabilities():
    assert "still **not perfectly calibrated**" in scaled_verdict(scaled_of(0.6, 0.0069, 0.0037))
    assert "within chance" in scaled_verdict(scaled_of(0.6, 0.0030, 0.0037))


def test_both_sides_of_a_calibration_are_told():
    words = sides_words(reliability_of(b9=(600, 0.7, 0.59), b13=(9000, 0.9, 0.97)))
    assert "its 600 predictions are **overconfident** (mean confidence 70.0%, 59.0" in words
    assert "its 9,000 predictions are **underconfident** (mean confidence 90.0%" in words
    assert sides_words(reliability_of(b13=(9000, 0.9, 0.97))) == ""
    after = rest_words(reliability_of(b13=(500, 0.9, 0.586), b14=(9000, 0.97, 0.97)))
    assert "the 500 predictions with 87 to 93% confidence have an accuracy of 58.6%" in after
    assert rest_words(reliability_of(b14=(9000, 0.97, 0.97))) == ""
    few = {"b7": (9, 0.5, 1 / 9)}  # far off, which of two bins one may be by chance
    assert rest_words(reliability_of(**few, b14=(9000, 0.97, 0.97))) == ""
    assert "the 4,000 predictions" in rest_words(reliability_of(**few, b13=(4000, 0.9, 0.87)))


def test_numbers_at_the_ends_are_not_known_exactly(tmp_path):
    found = evaluation(0)
    found.probabilities[:] = np.eye(len(CLASSES))[found.labels]
    words = point_words(class_table(make_run(tmp_path / "vit", tested=found)))
    # Wilson's intervals of 200 of 200 and of 20 of 20
    assert (
        "about ±0.9 percentage points for accuracy and ±8.1 for the recall of one class." in words
    )
    # Of a difference the variances add up: 0.94 and 8.06 times the square root of 2
    assert "±1.3 points for accuracy, so a difference of 1 point is not significant" in words
    assert "±11.4 points for recall, so a difference of 1 point is not significant" in words
    note = doubt({"vit": [1.0, 0.0]}, 100)
    assert "at most ±1.8 percentage points" in note and "±2.6 for a difference" in note


def test_a_difference_of_two_recalls_needs_more_than_the_interval_of_one(tmp_path):
    # Of 10,000 test images 90% correct: accuracy ±0.59 points, recall of 1,000 images ±1.86
    labels = np.repeat(np.arange(10), 1000)
    predicted = np.where(np.arange(10_000) % 1000 < 900, labels, (labels + 1) % 10)
    shares = np.eye(10, dtype=np.float32)[predicted]
    tested = Evaluation(shares, labels, "0" * 16, 0.001)
    words = point_words(class_table(make_run(tmp_path / "vit", tested=tested)))
    assert "±0.6 percentage points for accuracy and ±1.9 for the recall" in words
    assert "±0.8 points for accuracy, so a difference of 1 point is significant" in words
    assert "±2.6 points for recall, so a difference of 1 point is not significant" in words


def test_a_run_without_pictures_hinders_no_other():
    def size(run):
        if run == "foreign":
            raise DataError("of other classes")
        return {"small": 40, "large": 1000}[run]

    assert least(["large", "foreign", "small"], size) == (40, ["of other classes"])
    assert least(["foreign"], size) == (0, ["of other classes"])


@pytest.mark.parametrize("kind", ["only_right", "all_wrong"])
def test_a_model_alone_is_not_compared_with_none(tmp_path, kind):
    make_run(tmp_path / "vit")
    words = kind_words(predictions(bench(tmp_path), "vit"), Query("vit", Filters(kind)))
    assert words == "Only vit was tested on these images, so there is nothing to compare."


@pytest.mark.parametrize("stem", ["patch", "conv"])
def test_tokens_that_overlap_are_not_called_one_patch_each(tmp_path, stem):
    run = make_run(tmp_path / "vit", replace(VIT, options=VIT.options | {"stem": stem}))
    alone = stem == "patch"
    picture = Image.fromarray(np.arange(768, dtype=np.uint8).reshape(16, 16, 3))
    words = patches.article(bench(tmp_path), run, picture)[0].text
    assert ("The 4 × 4 × 3 = 48 values of a patch are projected" in words) == alone
    assert "a vector of 24 numbers" in words and "receives 16 patch tokens" in words
    assert ("also read a few pixels around each patch" in words) != alone
    assert ("drop" in class_maps.maps(bench(tmp_path), run, picture).fills) == alone


def test_the_strongest_patch_of_a_signed_map_says_for_which_side(tmp_path):
    found = class_maps.maps(bench(tmp_path), make_run(tmp_path / "vit"), Image.new("RGB", (16, 16)))
    signed = next(m for m in found.maps if m.signed)
    values = np.zeros((4, 4), np.float32)
    values[0, 0], values[2, 3] = 0.2, -1
    for sign, side in ((1, "opposes"), (-1, "supports")):
        drawn = panel(found, replace(signed, values=sign * values), None, "mean")
        assert drawn.lines[0] == f"strongest in row 3, column 4 of 4 × 4, {side} the class"


def test_files_to_save_lie_where_gradio_clears_up():
    button = gr.DownloadButton()
    first, second = cache_folder(button), cache_folder(button)
    assert first != second
    assert {str(first.parent), str(second.parent)} == {button.GRADIO_CACHE}
    first.rmdir(), second.rmdir()
