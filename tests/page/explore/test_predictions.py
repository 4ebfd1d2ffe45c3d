"""Payload of the predictions of all models for one image."""

import numpy as np

from tests.metrics.test_prediction_sets import with_validation
from tests.support.factories import make_evaluation, make_run
from vitdemo.context import Prediction
from vitdemo.page.explore.predictions import to_payload


def predict(run, percentile: float | None = None) -> Prediction:
    """Return a prediction whose probabilities rise with the index of the class."""
    probabilities = np.arange(10, dtype=np.float32) / 45
    return Prediction(run, np.zeros((16, 16, 3), np.uint8), probabilities, (4, 4), percentile)


def describe(run, label: str | None = None, **options) -> dict:
    (card,) = to_payload([predict(run, **options)], [], label)["models"]
    return card


def test_prediction_card_sorts_classes_by_probability(tmp_path):
    run = make_run(tmp_path / "vit")
    card = describe(run, percentile=2.5)
    assert card["classes"] == list(run.classes[:-4:-1])
    assert card["probabilities"] == sorted(card["probabilities"], reverse=True)
    figures = {
        "summary": "a vit for tests",
        "accuracy": 0.975,
        "is_cross_validated": False,
        "dataset": None,
        "percentile": 2.5,
        "smoothing": 0.0,
    }
    assert {name: card[name] for name in figures} == figures
    assert card["parameters"] == run.config["parameters"]
    run.config["data"] = {"name": "cifar10"}
    assert describe(run)["dataset"] == "CIFAR-10"


def test_prediction_card_lists_few_classes_and_counts_many(tmp_path):
    classes = tuple("abcdefghij")
    few = describe(make_run(tmp_path / "few", classes=classes))
    assert (few["class_count"], few["known"]) == (10, list(classes))
    many = describe(make_run(tmp_path / "many", classes=tuple(f"class {i}" for i in range(31))))
    assert (many["class_count"], many["known"]) == (31, None)


def test_prediction_card_has_no_label_for_a_class_unknown_to_the_model(tmp_path):
    runs = make_run(tmp_path / "vit"), make_run(tmp_path / "own", classes=tuple("abcdefghij"))
    value = to_payload([predict(run) for run in runs], [], "cat")
    assert value["label"] == "cat"
    assert [card["label"] for card in value["models"]] == ["cat", None]


def test_prediction_card_has_the_target_of_label_smoothing(tmp_path):
    run = make_run(tmp_path / "vit")
    run.config["recipe"]["label_smoothing"] = 0.1
    card = describe(run)
    assert (card["smoothing"], round(card["target"], 6)) == (0.1, 0.91)


def test_prediction_card_has_the_prediction_set(tmp_path):
    assert describe(make_run(tmp_path / "untested"))["set"] is None
    run = make_run(tmp_path / "vit", tested=with_validation(make_evaluation(0)))
    run.evaluation.validation_probabilities[:] = 0.1  # every true class has a probability of 0.1
    found = describe(run)["set"]
    # The probabilities are 0, 1/45, ..., 9/45, and those of the last five classes are above 0.1.
    assert found == {"percent": 95, "classes": list(run.classes[:4:-1])}
