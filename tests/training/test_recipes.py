"""Tests of the recipe table: ablation studies, notes, help texts and former names."""

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from vitdemo.cli import train
from vitdemo.errors import RecipeError
from vitdemo.models import ModelSpec
from vitdemo.training.recipes import RECIPE_ALIASES, RECIPES, Recipe, get_option, get_recipe
from vitdemo.training.recipes.ablations import declare_ablations, list_changes
from vitdemo.training.recipes.table import RECIPE_ENTRIES

ROOT = Path(__file__).parents[2]
MODEL = ModelSpec("resnet18")


@pytest.mark.parametrize("name", [name for name, e in RECIPE_ENTRIES.items() if "change" in e])
def test_each_ablation_recipe_changes_one_setting_of_its_base(name):
    base = RECIPES[RECIPE_ENTRIES[name]["base"]]
    assert len(list_changes(asdict(RECIPES[name]), base)) == 1


@pytest.mark.parametrize("field", ["mixup", "cutmix", "patch_dropout"])
def test_setting_that_is_used_in_no_epoch_raises(field):
    epochs_field = "whole_epochs" if field == "patch_dropout" else "unmixed_epochs"
    option = get_option(epochs_field)
    with pytest.raises(RecipeError, match=f"is 0.5 and {option} is 3, so none of 3 epochs"):
        Recipe("r", "", MODEL, head_epochs=1, epochs=2, **{field: 0.5, epochs_field: 3})
    Recipe("r", "", MODEL, head_epochs=1, epochs=2, **{field: 0.5, epochs_field: 2})
    Recipe("r", "", MODEL, epochs=2, **{field: 0.0, epochs_field: 3})


def test_every_note_has_a_date_or_says_not_measured():
    for recipe in RECIPES.values():
        date = re.search(r"\b20\d\d-\d\d-\d\d\b", recipe.note)
        assert ("We have not trained this recipe yet." in recipe.note) != bool(date), recipe.name


def test_every_option_has_a_help_text():
    parser = train.build_parser()
    assert [action.dest for action in parser._actions if not action.help] == []


@pytest.mark.parametrize(
    ("former", "option", "field", "value"),
    [
        ("--keep", "--save-epochs", "keep", "1,2"),
        ("--teacher-share", "--distillation-weight", "teacher_share", 0.25),
        ("--train-pictures", "--train-images", "train_pictures", 40),
        ("--unmixed-epochs", "--no-mixup-epochs", "unmixed_epochs", 3),
        ("--validation-share", "--validation-fraction", "validation_share", 0.3),
        ("--whole-epochs", "--full-patch-epochs", "whole_epochs", 2),
    ],
)
def test_former_options_still_work_and_are_hidden(former, option, field, value):
    parser = train.build_parser()
    for name in (former, option):
        args = parser.parse_args(["vit-small-cpu", name, str(value)])
        assert getattr(train.choose_recipe(args, Path("run")), field) == value
    words = parser.format_help().split()
    assert option in words and former not in words


def test_former_names_of_recipes_still_work():
    for former, name in RECIPE_ALIASES.items():
        assert former not in RECIPES
        assert get_recipe(former) == RECIPES[name]


def test_included_models_match_the_recipe_of_their_name():
    for name in ("finetune-deit-tiny", "vit-scratch", "conv-baseline", "vit-conv-stem"):
        config = json.loads((ROOT / "assets" / "runs" / name / "config.json").read_text())
        assert config["recipe"]["name"] == name
        trained, recipe = config["recipe"], json.loads(json.dumps(asdict(RECIPES[name])))
        fields = set(recipe) - {"summary", "note", "keep"}
        assert {k: trained.get(k, recipe[k]) for k in fields} == {k: recipe[k] for k in fields}


def declare(name: str, /, **changes) -> list[tuple[str, str]]:
    """Return (baseline, change) of each ablation of a recipe, as a run records it in JSON."""
    fields = json.loads(json.dumps(asdict(replace(get_recipe(name), **changes))))
    return [(study["baseline"], study["change"]) for study in declare_ablations(fields)]


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("vit-plain-cpu", {}, [("vit-plain-cpu", "")]),
        ("vit-plain-cpu", {"seed": 3, "keep": "1"}, [("vit-plain-cpu", "")]),
        ("vit-best", {}, [("vit-scratch", "")]),
        ("vit-plain-cpu", {"flip": False}, [("vit-plain-cpu", "flip: False")]),
        ("vit-plain-cpu", {"mixup": 0.1, "cutmix": 1.0}, [("vit-plain-cpu", "mixup: 0.1")]),
        (
            "vit-plain-cpu",
            {"optimizer": "sgd", "learning_rate": 0.1},
            [("vit-plain-cpu", "optimizer: sgd")],
        ),
        ("vit-plain-cpu", {"flip": False, "cutout": 8}, []),
        ("vit-plain-cpu", {"name": "mine"}, []),
        (
            "vit-plain-cpu-muon",
            {"seed": 1},
            [("vit-plain-cpu", "muon"), ("vit-muon-cpu", "shorter"), ("vit-plain-cpu-muon", "")],
        ),
    ],
)
def test_recipes_declare_their_ablations(name, changes, expected):
    assert declare(name, **changes) == expected


def test_recipes_of_old_runs_lack_new_fields():
    fields = asdict(get_recipe("vit-plain-cpu"))
    del fields["cutout"]
    assert declare_ablations(fields) == [{"baseline": "vit-plain-cpu", "change": ""}]
    assert declare_ablations({}) == []
