"""Ablation studies: the baseline of a recipe, and the name of the change to the baseline.

    declare_ablations(asdict(get_recipe("vit-plain-cpu-muon")))
    # [{"baseline": "vit-plain-cpu", "change": "muon"}, {"baseline": "vit-muon-cpu", ...}]

A run records the result in `config.json` when it is created. For older runs, the result is computed
from the recorded recipe.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from vitdemo.training.recipes import RECIPES, Recipe, resolve_recipe_name, table

# Fields that may differ without an effect on training
_IGNORED_FIELDS = ("name", "summary", "note", "keep", "seed")
# field -> another field; if both differ, they count as one change
_JOINT_FIELDS = {
    "learning_rate": "optimizer",
    "momentum": "optimizer",
    "betas": "optimizer",
    "cutmix": "mixup",
    "unmixed_epochs": "mixup",
    "whole_epochs": "patch_dropout",
    "teacher_share": "teacher",
    "head_learning_rate": "head_epochs",
}


def declare_ablations(recipe: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return baseline and change of each ablation study of a recipe, given as a dict of fields.

    Each recipe of the table is a baseline itself, without a change, and may be a change to other
    baselines. A recipe with one setting that differs from the table is a change to this recipe. A
    recipe with more such settings, or with an unknown name, belongs to no study.
    """
    name = resolve_recipe_name(str(recipe.get("name", "")))
    if name not in RECIPES:
        return []
    changes = list_changes(recipe, RECIPES[name])
    if len(changes) > 1:
        return []
    if changes:
        return [{"baseline": name, "change": changes[0]}]
    entry = table.RECIPE_ENTRIES.get(name, {})
    studies = [(entry["base"], entry["change"])] if "change" in entry else []
    studies += [
        (base, change) for (own, base), change in table.SHARED_CHANGES.items() if own == name
    ]
    return [{"baseline": base, "change": change} for base, change in [*studies, (name, "")]]


def list_changes(recipe: Mapping[str, Any], base: Recipe) -> list[str]:
    """List the settings of `recipe` that differ from `base`, such as "policy: trivial".

    Fields that are missing in `recipe` are ignored.
    """
    changed = [
        name
        for name, value in asdict(base).items()
        if name in recipe and name not in _IGNORED_FIELDS and _plain(recipe[name]) != _plain(value)
    ]
    main = [name for name in changed if _JOINT_FIELDS.get(name) not in changed]
    return [f"{name}: {recipe[name]}" for name in main]


def _plain(value: Any) -> Any:
    """Return `value` as it is after a round trip through JSON."""
    return json.loads(json.dumps(value))
