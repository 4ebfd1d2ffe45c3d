"""The benchmarks of training: what they count, and that they run on any machine."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from benchmarks import train, train_all, usual
from tests.making import VIT, make_run
from vitdemo.recipes import RECIPES, Recipe

TINY = Recipe("tiny", "for tests", VIT, epochs=2, batch_size=8, head_epochs=1)


def test_a_table_of_speed_names_machine_and_versions(monkeypatch, capsys):
    monkeypatch.setitem(RECIPES, "tiny", TINY)
    train.main(["tiny", "--device", "cpu", "--steps", "2", "--epochs", "2"])
    out = capsys.readouterr().out
    machine, ceiling, _, head, _, row = out.splitlines()
    assert f"torch {torch.__version__.split('+')[0]}" in machine
    assert "TFLOP/s" in ceiling
    assert row.count("|") == head.count("|")
    name, batch, mode, rate, share, *_ = [cell.strip() for cell in row.strip("|").split("|")]
    assert (name, batch, mode) == ("`tiny`", "8", "off")
    assert float(rate.replace(",", "")) > 0
    assert 0 <= float(share.removesuffix(" %")) < 100  # a busy machine rounds to 0.0


def test_the_usual_loop_is_timed_beside_ours(monkeypatch, capsys):
    model = replace(VIT, image_size=32)
    monkeypatch.setitem(RECIPES, "tiny", replace(TINY, model=model, policy="auto", cutmix=1.0))
    monkeypatch.setattr(usual, "WORKERS", 1)
    train.main(["--usual", "tiny", "--steps", "2", "--epochs", "2"])
    *_, head, _, row = capsys.readouterr().out.splitlines()
    assert row.count("|") == head.count("|")
    name, batch, done, theirs, ours, ratio = [cell.strip() for cell in row.strip("|").split("|")]
    assert (name, batch, done) == ("`tiny`", "8", "crop, flip, auto")
    theirs, ours = (float(rate.replace(",", "")) for rate in (theirs, ours))
    assert float(ratio) == pytest.approx(ours / theirs, rel=0.1)


def test_both_sides_leave_out_what_one_of_them_lacks():
    recipe = usual.comparable(RECIPES["vit-best-distilled"])
    assert (recipe.mixup, recipe.cutmix, recipe.teacher) == (0, 0, "")
    assert recipe.policy == "auto" and recipe.label_smoothing == 0.1
    with pytest.raises(ValueError, match="'vit-small-masked' trains without labels"):
        usual.comparable(RECIPES["vit-small-masked"])


def test_the_usual_transforms_are_the_recipes():
    recipe = replace(TINY, policy="trivial", erasing=0.25, model=replace(VIT, image_size=48))
    names = [type(step).__name__ for step in usual.transform_of(recipe).transforms]
    assert names == ["RandomCrop", "RandomHorizontalFlip", "TrivialAugmentWide", "Resize",
                     "ToTensor", "Normalize", "RandomErasing"]  # fmt: skip
    plain = replace(recipe, policy="none", erasing=0.0, crop_padding=0, flip=False)
    image = usual.to_pil_image(usual.made_up(1).images[0])
    assert usual.transform_of(plain)(image).shape == (3, 48, 48)


def test_the_ceiling_counts_two_for_a_multiply_add(monkeypatch):
    clock = iter(range(0, 1000, 2))
    monkeypatch.setattr(train.time, "perf_counter", lambda: next(clock))
    assert train.matmul_rate(torch.device("cpu"), repeats=1) == 2 * 1024**3 / 2


@pytest.mark.parametrize(("target", "seconds"), [(0.0, 30.0), (0.7, 60.0), (0.9, None)])
def test_time_to_an_accuracy_counts_whole_epochs(tmp_path, target, seconds):
    run = make_run(tmp_path / "run", epochs=4)  # 0.4, 0.7, 0.8, 0.85; 30 s each
    assert train.seconds_to(run, target) == seconds
    later = replace(run, config=run.config | {"started_from": {"seconds": 15}})
    assert train.seconds_to(later, target) == (seconds and seconds + 15)


def test_a_table_of_times_is_read_from_run_folders(tmp_path, capsys):
    make_run(tmp_path / "one", epochs=8)
    train.main(["--runs", str(tmp_path)])
    assert "| `one` | a test machine | 8 | 4.0 | 180 s | - |" in capsys.readouterr().out


def test_trainings_go_on_where_they_stand(monkeypatch, tmp_path, capsys):
    for name, files in {"done": ["evaluation.npz"], "begun": ["config.json"]}.items():
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).touch()
    commands = []

    def run(command):
        commands.append(command[2:])
        return subprocess.CompletedProcess(command, 130 if "begun" in command else 0)

    monkeypatch.setattr(subprocess, "run", run)
    words = ["done", "begun", f"new --seed 1 --out={tmp_path / 'other'}"]
    assert train_all.main([*words, "--minutes", "5", "--runs", str(tmp_path)]) == 1
    assert [(c[0], "--resume" in c, "--minutes" in c) for c in commands] == [
        ("begun", True, True),
        ("new", False, True),
    ]
    assert commands[1][1:5] == ["--seed", "1", "--out", str(tmp_path / "other")]
    assert capsys.readouterr().out.splitlines()[:2] == ["done: finished", "begun: to be resumed"]


def test_a_training_without_labels_is_finished_with_its_weights(tmp_path):
    (tmp_path / "config.json").write_text('{"recipe": {"mask_ratio": 0.75}}')
    assert not train_all.is_finished(tmp_path)
    (tmp_path / "model.safetensors").touch()
    assert train_all.is_finished(tmp_path)
    (tmp_path / "config.json").write_text('{"recipe": {"mask_ratio": 0.0}}')
    assert not train_all.is_finished(tmp_path)


def test_nothing_is_begun_without_time(tmp_path, capsys):
    assert train_all.main(["vit-best", "--minutes", "0.1", "--runs", str(tmp_path)]) == 1
    assert "vit-best: not begun" in capsys.readouterr().out


def test_benchmarks_of_training_need_no_page():
    code = (
        "import sys, benchmarks.train; print({'gradio', 'captum', 'matplotlib'} & {*sys.modules})"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=train.ROOT
    )
    assert (run.returncode, run.stdout.strip()) == (0, "set()"), run.stderr
