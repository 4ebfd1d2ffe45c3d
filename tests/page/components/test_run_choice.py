"""Menu of runs: groups, checks of browser values, and updates."""

import shutil
from pathlib import Path

import pytest

from tests.support.factories import declare_ablation, make_run
from vitdemo import runs
from vitdemo.page.components.run_choice import RunChoice, group_runs
from vitdemo.runs import read_run
from vitdemo.runs.timm_run import create_timm_run

RECIPE_CHANGES = {
    "longer": {"epochs": 9},
    "trivial": {"policy": "trivial"},
    "ema": {"ema_decay": 0.9},
}


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """Model with weights, ablation without weights, and an unrelated run; read-only."""
    root, loaded = tmp_path_factory.mktemp("runs"), []
    changes = {"plain": {}, **RECIPE_CHANGES, "other": {"epochs": 3, "mixup": 1, "clip_norm": 1}}
    for name, change in {"model": None, **changes}.items():
        run = make_run(root / name)
        if change is not None:
            recipe = run.config["recipe"] | {"flip": False, "crop_padding": 0, "cutout": 4} | change
            runs.write_config(run.path, run.config | {"recipe": recipe})
            (run.path / runs.WEIGHTS_FILE).unlink()
            if name != "other":
                declare_ablation(read_run(run.path), "".join(change), "plain")
        loaded.append(read_run(run.path))
    return loaded


def test_each_run_is_in_one_group(several):
    results_only = ("Results only (no weights)", ["other"])
    ablation = ("Ablation of plain", ["plain", "ema", "longer", "trivial"])
    assert group_runs(several) == [("Models", ["model"]), ablation, results_only]
    timm_run = create_timm_run("timm:vit_tiny_patch16_224", pretrained=False)
    assert group_runs([timm_run, *several])[0] == ("Models", [timm_run.name, "model"])


def test_groups_of_trained_ablation_runs_and_unfinished_runs(several, tmp_path):
    """A baseline with weights moves to the models; the change without weights stays."""
    folders = [Path(shutil.copytree(run.path, tmp_path / run.name)) for run in several]
    for folder in folders[1:3]:
        (folder / runs.WEIGHTS_FILE).write_bytes(b"weights")
    (folders[-1] / runs.EVALUATION_FILE).unlink()
    assert group_runs([read_run(folder) for folder in folders]) == [
        ("Models", ["model", "plain"]),
        ("Not finished", ["other"]),
        ("Ablation of plain", ["ema", "longer", "trivial"]),
    ]


def test_the_default_is_the_first_model_or_none(several):
    assert RunChoice(group_runs(several)).value == "model"
    assert RunChoice(group_runs(several), nobody="no other model").value is None
    assert group_runs([]) == []
    assert RunChoice([]).value is None
