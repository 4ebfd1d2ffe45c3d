"""The grouped choice of a run: its groups, what a browser may send, how it is renewed."""

import pytest

from tests.making import make_run
from vitdemo import runs
from vitdemo.page.components.run_choice import RunChoice, grouped, renewed_runs
from vitdemo.runs import read_run
from vitdemo.timm_models import timm_run

INGREDIENTS = {"longer": {"epochs": 9}, "trivial": {"policy": "trivial"}, "ema": {"ema_decay": 0.9}}


@pytest.fixture
def several(tmp_path):
    """A model with weights, an ablation of figures alone, and a run that is like none of them."""
    found = []
    changes = {"plain": {}, **INGREDIENTS, "other": {"epochs": 3, "mixup": 1, "clip_norm": 1}}
    for name, change in {"model": None, **changes}.items():
        run = make_run(tmp_path / name)
        if change is not None:
            recipe = run.config["recipe"] | {"flip": False, "crop_padding": 0, "cutout": 4} | change
            runs.write_config(run.path, run.config | {"recipe": recipe})
            (run.path / runs.WEIGHTS).unlink()
        found.append(read_run(run.path))
    return found


def test_each_run_stands_in_one_group(several):
    assert grouped(several) == [
        ("Models", ["model"]),
        ("Ablation of plain", ["plain", "ema", "longer", "trivial"]),
        ("Curves and answers alone", ["other"]),
    ]


def test_an_ingredient_with_weights_stays_with_its_ablation(several):
    for run in several[1:3]:  # the base and one of its ingredients
        (run.path / runs.WEIGHTS).write_bytes(b"weights")
    assert grouped(several)[:2] == [
        ("Models", ["model", "plain"]),
        ("Ablation of plain", ["ema", "longer", "trivial"]),
    ]


def test_a_run_in_training_is_told_from_one_whose_weights_are_elsewhere(several):
    (several[-1].path / runs.EVALUATION).unlink()
    assert grouped(several)[1] == ("Not finished", ["other"])


def test_a_model_of_timms_is_a_model_too(several):
    timm_models = timm_run("timm:vit_tiny_patch16_224", pretrained=False)
    assert grouped([timm_models, *several[:1]]) == [("Models", [timm_models.name, "model"])]


def test_no_runs_are_no_choice():
    assert grouped([]) == []
    assert RunChoice([]).value is None
    assert renewed_runs([], "gone")[1] is None


def test_a_choice_begins_with_the_first_model_or_with_nobody(several):
    assert RunChoice(grouped(several)).value == "model"
    assert RunChoice(grouped(several), nobody="no other model").value is None


@pytest.mark.parametrize(
    ("sent", "name"), [("vit", "vit"), ("", None), (None, None), (["vit"], None), ({"a": 1}, None)]
)
def test_only_a_name_comes_from_the_browser(sent, name):
    assert RunChoice().preprocess(sent) == name
    assert len(RunChoice().preprocess("x" * 9999)) == 300


def test_a_choice_that_is_there_is_left_to_the_person(several):
    update, name = renewed_runs(several, "ema")
    assert (name, update["groups"]) == ("ema", grouped(several))
    assert "value" not in update  # which would undo a choice made meanwhile


@pytest.mark.parametrize(
    ("optional", "name", "value"), [(False, "model", "model"), (True, None, "")]
)
def test_a_choice_that_is_gone_becomes_the_first_or_none(several, optional, name, value):
    update, holds = renewed_runs(several, "gone", optional=optional)
    assert (holds, update["value"]) == (name, value)
