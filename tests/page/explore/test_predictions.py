"""Payload of the predictions of all models for one image."""

import numpy as np
import pytest

from tests.support.factories import make_run
from vitdemo.context import Prediction
from vitdemo.page.explore.predictions import (
    describe_accuracy,
    describe_classes,
    prediction_notes,
    to_payload,
)


def predict(run, percentile: float | None = None) -> Prediction:
    """Return a prediction whose probabilities rise with the index of the class."""
    probabilities = np.arange(10, dtype=np.float32) / 45
    return Prediction(run, np.zeros((16, 16, 3), np.uint8), probabilities, (4, 4), percentile)


def test_prediction_card_sorts_classes_by_probability(tmp_path):
    run = make_run(tmp_path / "vit")
    (card,) = to_payload([predict(run)], [], "cat")["models"]
    assert card["classes"] == list(run.classes[:-4:-1])
    assert card["probabilities"] == sorted(card["probabilities"], reverse=True)
    assert card["accuracy"] == "97.5% test accuracy"
    assert card["about"] == "vit: a vit for tests, 0.0 M parameters, 97.5% test accuracy."
    run.config["data"] = {"name": "cifar10"}
    assert describe_accuracy(run) == "97.5% test accuracy on CIFAR-10"


def test_prediction_card_names_the_classes_that_the_model_knows(tmp_path):
    few = make_run(tmp_path / "few", classes=("bee", "ant"))
    many = make_run(tmp_path / "many", classes=tuple(f"class {i}" for i in range(31)))
    assert describe_classes(few) == "This model has 2 classes: bee, ant."
    assert describe_classes(many) == "This model has 31 classes."


def test_prediction_card_has_no_label_for_a_class_unknown_to_the_model(tmp_path):
    runs = make_run(tmp_path / "vit"), make_run(tmp_path / "own", classes=tuple("abcdefghij"))
    value = to_payload([predict(run) for run in runs], [], "cat")
    assert value["label"] == "cat"
    assert [card["label"] for card in value["models"]] == ["cat", None]


@pytest.mark.parametrize(
    ("percentile", "label", "start"),
    [
        (None, None, ""),
        (5.0, None, ""),
        (52.0, None, ""),
        (4.9, None, "Rather unlike the training images: less similar to them than 95% of"),
        (1.0, None, "Rather unlike the training images: less similar to them than 99% of"),
        (0.3, None, "Unlike the training images: less similar to them than 99% of"),
        (0.0, None, "Unlike the training images: less similar to them than all validation"),
        # Of the photos of the ten classes, 4.7 to 12.3% get this note, so it names no class.
        (0.3, "cat", "Unlike the training images: less similar to them than 99% of validation"),
    ],
)
def test_prediction_card_warns_of_an_out_of_distribution_image(tmp_path, percentile, label, start):
    run = make_run(tmp_path / "vit")
    (card,) = to_payload([predict(run, percentile)], [], label)["models"]
    assert card["unusual"].startswith(start) and bool(start) == bool(card["unusual"])


def test_notes_explain_label_smoothing(tmp_path):
    run = make_run(tmp_path / "vit")
    run.config["recipe"]["label_smoothing"] = 0.1
    classes, smoothing = prediction_notes([run])
    assert "10 classes: airplane" in classes
    assert "label smoothing 0.1: its target for the true class is 91%" in smoothing
    run.config["recipe"]["label_smoothing"] = 0.0
    assert prediction_notes([run]) == [classes]
