"""The command line of train.py: exit codes, one-line errors and resumable runs."""

import errno
import io
import itertools
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.support.factories import TINY_RECIPE, make_run, run_train_py, write_noise_images
from tests.support.serving import free_port, start_fork
from vitdemo import data, runs
from vitdemo.cli import train
from vitdemo.data import datasets, make_synthetic_images, synthetic
from vitdemo.errors import RunError
from vitdemo.runs import files, reference, writer
from vitdemo.runs.evaluate import split_of
from vitdemo.runs.steps import STEPS_FILE, read_steps
from vitdemo.training import progress_bar, trainer
from vitdemo.training.processes import Processes
from vitdemo.training.recipes import RECIPE_ALIASES, RECIPES, get_recipe, make_smoke_recipe
from vitdemo.training.recipes.ablations import declare_ablations
from vitdemo.training.splits import split_training_set
from vitdemo.training.stopping import STOP_SIGNALS, handle_signals
from vitdemo.training.trainer import STOP_CHECK_STEPS

THREE_CLASSES = {
    f"{part}/{name}": 10 for part in ("train", "test") for name in ("ant", "bee", "cow")
}
ROOT = Path(__file__).parents[2]
WEIGHTS = runs.WEIGHTS_FILE

pytestmark = pytest.mark.usefixtures("tiny_recipe")


@pytest.fixture(autouse=True)
def _every_checkpoint(monkeypatch):
    monkeypatch.setattr(writer, "CHECKPOINT_INTERVAL", 0.0)


@pytest.fixture
def cli(capsys):
    """Return a function that runs train.py and returns (exit code, stdout, stderr)."""
    return lambda *arguments: (run_train_py(*arguments), *capsys.readouterr())


@pytest.fixture
def smoke(cli, tmp_path):
    """Return a function that runs the tiny recipe for three epochs in tmp_path / "run"."""
    return lambda *more: cli("tiny", "--smoke", "--epochs", 3, "--out", tmp_path / "run", *more)


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """Image folder of three classes."""
    return write_noise_images(tmp_path_factory.mktemp("three") / "pictures", THREE_CLASSES)


@pytest.fixture(scope="module")
def three_run(three):
    """Read-only, finished run on `three`."""
    folder = three.parent / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RECIPES, "tiny", TINY_RECIPE)
        assert run_train_py("tiny", "--data", three, "--out", folder, "--epochs", 1) == 0
    return folder


def read_epochs(folder):
    return [record["epoch"] for record in runs.read_history(folder)]


def read_losses(folder):
    return [(r["train_loss"], r["val_loss"]) for r in runs.read_history(folder)]


def parse_printed_command(out):
    """Return the arguments of the printed resume command."""
    return shlex.split(out.split("python train.py ")[1])


def assert_rejected(result, *messages):
    code, out, err = result
    assert (code, out) == (2, "")
    assert err.startswith("train.py: ") and err.count("\n") == 1
    assert all(str(message) in err for message in messages), err


# --- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [(), ("--list",)])
def test_the_recipes_are_listed(cli, arguments):
    code, out, _ = cli(*arguments)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(RECIPES)


@pytest.mark.parametrize(
    ("command", "messages"),
    [
        ("vit-enormous --out {none}", ["'vit-enormous'", *RECIPES]),
        ("--config {none}", ["Choose a run folder with --out"]),
        ("tiny --smoke --data {none} --out {tiny}-2", ["'{none}' does not exist"]),
        ("evaluate {run} --data {none}", ["'{none}' does not exist"]),
        ("tiny --data {damaged} --out {none}", ["{damaged}/test/cat/0.png' is "]),
        ("tiny --data {three} --out {tiny}", ["already contains a run", "--resume"]),
        ("tiny --smoke --out {run}", ["already contains a run"]),  # not a smoke run
        ("tiny --resume --smoke --out {none}", ["not a run"]),
        ("vit-small-cpu --resume --smoke --out {tiny}", ["'tiny'", "'vit-small-cpu'"]),
        ("tiny --resume --smoke --out {tiny} --seed 5", ["seed 0, not 5"]),
        ("tiny --resume --smoke --out {tiny} --image-size 24", ["image_size 16, not 24"]),
        ("tiny --resume --smoke --out {tiny} --epochs 2", ["completed 3 of 3 epochs", "become 2"]),
        ("tiny --resume --smoke --out {tiny} --epochs 4", ["completed 3 of 3 epochs", "become 4"]),
        ("tiny --resume --data {three} --out {tiny}", ["another training set"]),
        ("evaluate {run} {run}", ["train.py evaluate runs/NAME"]),
        ("evaluate {none}", ["{none}", "not a run"]),
        ("evaluate {run} --data {other}", ["ant, bee, cow"]),
        ("report", ["train.py report runs/NAME"]),
    ],
)
def test_invalid_commands_are_rejected_without_writing(
    cli, command, messages, run_copy, three, three_run, put_pictures, tmp_path
):
    paths = {"none": tmp_path / "none", "tiny": run_copy, "run": three_run, "three": three}
    pair = {"train/cat": 4, "train/dog": 4, "test/cat": 2}
    paths |= {name: put_pictures(pair, name) for name in ("other", "damaged")}
    (paths["damaged"] / "test" / "cat" / "0.png").write_bytes(b"")
    before = [(run / runs.WEIGHTS_FILE).read_bytes() for run in (run_copy, three_run)]
    result = cli(*shlex.split(command.format(**paths)))
    assert_rejected(result, *(message.format(**paths) for message in messages))
    assert [(run / runs.WEIGHTS_FILE).read_bytes() for run in (run_copy, three_run)] == before
    assert not paths["none"].exists()


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--epochs", 0, "epochs is 0"),
        ("--optimizer", "adagrad", "'adagrad': choose one of adamw"),
        ("--device", "tpu", "'tpu': choose auto, cuda"),
        ("--compile", "fast", "'fast': choose one of auto, off, default, reduce-overhead"),
        ("--crop-padding", 32, "crop_padding 32"),
        ("--mixup", -1, "mixup"),
        ("--validation-fraction", 0, "between 0 and 1"),
        ("--train-images", 5000, "--train-images is 5000, but the training set has only 86"),
        ("--policy", "magic", "none, trivial, rand, auto"),
        ("--save-epochs", "1,two", "--save-epochs is '1,two'"),
        ("--save-epochs", "0", "from 1 on"),
        ("--alternating-flip", "--no-flip", "flip is off"),
    ],
)
def test_invalid_option_values_are_rejected_before_the_run(smoke, tmp_path, option, value, message):
    assert_rejected(smoke(option, value), message)
    assert not (tmp_path / "run").exists()


def test_download_reports_an_existing_dataset(cli, three):
    code, out, _ = cli("download", "--data", three)
    assert code == 0
    assert "3 classes" in out


# --- a run ---------------------------------------------------------------------------------------


def test_smoke_run_writes_all_files(cli, tmp_path):
    short = ("--epochs", 1, "--batch-size", 64, "--image-size", 64, "--device", "cpu")
    code, out, _ = cli("finetune-deit-tiny", "--smoke", *short, "--out", tmp_path / "r")
    files = {runs.CONFIG_FILE, runs.HISTORY_FILE, runs.WEIGHTS_FILE, runs.EVALUATION_FILE}
    files |= {runs.CHECKPOINT_FILE, STEPS_FILE}
    assert code == 0
    assert {path.name for path in (tmp_path / "r").iterdir()} == files
    assert json.loads(out.splitlines()[-1])["test_pictures"] == len(make_synthetic_images())


def test_training_and_evaluation_write_reference_features(cli, tmp_path, monkeypatch):
    monkeypatch.setattr(reference, "MIN_VALIDATION", 8)  # few of the synthetic images are held out
    folder = tmp_path / "run"
    arguments = ("tiny", "--smoke", "--epochs", 2, "--device", "cpu", "--out", folder)
    assert cli(*arguments)[0] == 0
    run = runs.read_run(folder)
    first = reference.read_reference(run)
    counts = run.config["split"]["train_pictures"], run.config["split"]["validation_pictures"]
    assert (len(first.features), len(first.validation_scores)) == counts
    (folder / runs.REFERENCE).unlink()
    monkeypatch.setattr(datasets, "open_dataset", lambda root, **_: data.SYNTHETIC_DATASET)
    assert cli("evaluate", folder, "--device", "cpu")[0] == 0
    again = reference.read_reference(runs.read_run(folder))
    np.testing.assert_array_equal(again.features, first.features)
    np.testing.assert_array_equal(again.validation_scores, first.validation_scores)


def test_split_of_a_run_equals_its_training_split(tmp_path):
    recipe = replace(TINY_RECIPE, train_pictures=50, seed=3)
    images = data.SYNTHETIC_DATASET.load("train")
    fingerprint = data.compute_fingerprint(images, data.SYNTHETIC_DATASET.classes)
    run = make_run(tmp_path / "run", classes=data.SYNTHETIC_DATASET.classes, recipe=asdict(recipe))
    run.config["data"] = {"fingerprint": fingerprint}
    parts = split_of(run, data.SYNTHETIC_DATASET)
    for part, indices in zip(parts, split_training_set(images, recipe), strict=True):
        assert torch.equal(part.images, images.images[indices])
    assert len(parts[0]) == 50


def test_smoke_run_supports_two_stages_and_training_subsets(cli, monkeypatch, tmp_path):
    recipe = replace(TINY_RECIPE, name="staged", head_epochs=4, train_pictures=20_000, patience=8)
    monkeypatch.setitem(RECIPES, "staged", recipe)
    assert cli("staged", "--smoke", "--device", "cpu", "--out", tmp_path / "run")[0] == 0
    stages = [record["stage"] for record in runs.read_history(tmp_path / "run")]
    assert stages == ["head", "all", "all"]


@pytest.mark.parametrize("changes", [{}, {"epochs": 1}], ids=["two epochs", "one"])
def test_smoke_recipe_includes_each_part_of_the_recipe(changes):
    for name in RECIPES:
        recipe = make_smoke_recipe(get_recipe(name), **changes)
        plain_epochs = (recipe.mixup or recipe.cutmix) and recipe.unmixed_epochs
        plain_epochs = max(plain_epochs, recipe.patch_dropout and recipe.whole_epochs)
        assert plain_epochs <= recipe.epochs - 1 <= 1, name
        assert recipe.mixup == RECIPES[name].mixup, name


def test_options_set_recipe_fields_and_input_size(smoke, tmp_path):
    values = ("--learning-rate", "0.01", "--label-smoothing", "0.2", "--image-size", 24)
    assert smoke("--epochs", 1, *values)[0] == 0
    config = runs.read_config(tmp_path / "run")
    assert (config["recipe"]["learning_rate"], config["recipe"]["label_smoothing"]) == (0.01, 0.2)
    assert config["input_size"] == 24
    assert config["ablations"] == declare_ablations(config["recipe"])
    assert runs.load_model(runs.read_run(tmp_path / "run")).patch_embed.grid_size == (3, 3)


def test_a_folder_of_three_classes_is_trained_end_to_end(three_run):
    run = runs.read_run(three_run)
    assert run.classes == ("ant", "bee", "cow")
    assert run.evaluation.probabilities.shape == (30, 3)
    assert runs.load_model(run).head.out_features == 3
    predicted, labels = run.evaluation.validation_probabilities, run.evaluation.validation_labels
    assert (predicted.shape, labels.tolist()) == ((3, 3), [0, 1, 2])
    assert (predicted.argmax(1) == labels).mean() == pytest.approx(run.history[-1]["val_accuracy"])


def test_evaluate_writes_the_evaluation_again(cli, three, three_run, put_pictures, tmp_path):
    folder, first = tmp_path / "copy", runs.read_evaluation(three_run)
    shutil.copytree(three_run, folder)
    (folder / runs.EVALUATION_FILE).unlink()
    code, out, _ = cli("evaluate", folder, "--data", three)
    again = runs.read_evaluation(folder)
    accuracy = (again.probabilities.argmax(1) == again.labels).mean()
    assert code == 0
    assert json.loads(out)["test_accuracy"] == pytest.approx(accuracy)
    assert again.probabilities.tolist() == first.probabilities.tolist()
    assert again.fingerprint == first.fingerprint
    assert again.validation_probabilities.tolist() == first.validation_probabilities.tolist()
    assert again.validation_labels.tolist() == first.validation_labels.tolist()
    # With other training images the validation split is unknown.
    code, _, err = cli(
        "evaluate", folder, "--data", put_pictures(THREE_CLASSES | {"train/ant": 11})
    )
    again = runs.read_evaluation(folder)
    assert code == 0
    assert "validation set is not evaluated" in err
    assert again.validation_probabilities is again.validation_labels is None


def test_weights_are_kept_if_the_test_set_changes_during_training(
    cli, monkeypatch, put_pictures, tmp_path
):
    folder, out = put_pictures(THREE_CLASSES, "my images"), tmp_path / "my run"
    write_weights = runs.write_weights

    def write_then_change(*values):
        write_weights(*values)
        (folder / "test" / "ant" / "3.png").write_bytes(b"no image")

    with monkeypatch.context() as patch:
        patch.setattr(runs, "write_weights", write_then_change)
        code, _, err = cli("tiny", "--epochs", 1, "--data", folder, "--out", out)
    assert code == 2 and "test/ant/3.png' is " in err and "Traceback" not in err
    assert f"weights are saved in '{out}'" in err
    assert runs.read_run(out).has_weights and not runs.read_run(out).has_evaluation
    put_pictures(THREE_CLASSES, "my images")
    assert cli(*parse_printed_command(err.split("Evaluate the run with: ")[1]))[0] == 0
    assert len(runs.read_run(out).evaluation.labels) == 30


def test_ctrl_c_during_evaluation_prints_the_evaluate_command(cli, monkeypatch, three, tmp_path):
    with monkeypatch.context() as patch:
        interrupt_at(patch, train, "evaluate_run", 1, KeyboardInterrupt)
        code, _, err = cli("tiny", "--epochs", 1, "--data", three, "--out", tmp_path / "run")
    assert code == 130
    assert "weights are saved" in err
    assert cli(*parse_printed_command(err.removesuffix("train.py: stopped.\n")))[0] == 0
    assert runs.read_run(tmp_path / "run").has_evaluation


def test_skipped_files_and_a_larger_validation_set_are_reported(cli, put_pictures, tmp_path):
    counts = {f"train/c{i:02}": 4 for i in range(30)} | {f"test/c{i:02}": 1 for i in range(30)}
    folder, out = put_pictures(counts), tmp_path / "run"
    (folder / "train" / "c00" / "notes.txt").write_text("x")
    code, _, err = cli("tiny", "--epochs", 1, "--data", folder, "--out", out)
    assert code == 0
    assert err.count("Skipped 1 file without an image suffix: train/c00/notes.txt.") == 1
    assert "30 of 120 images are held out for validation, because --validation-fraction 0.1" in err
    split = runs.read_config(out)["split"]
    assert (split["train_pictures"], split["validation_pictures"]) == (90, 30)
    assert runs.read_run(out).evaluation.validation_labels.tolist() == list(range(30))
    # No message if the option already asks for this fraction.
    options = ("--validation-fraction", 0.25, "--epochs", 1, "--train-images", 40)
    code, _, err = cli("tiny", *options, "--data", folder, "--out", tmp_path / "other")
    assert code == 0 and "held out" not in err
    assert runs.read_config(tmp_path / "other")["split"]["train_pictures"] == 40


def test_a_run_with_another_split_is_neither_resumed_nor_validated(cli, three, three_run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(three_run, folder)
    config = runs.read_config(folder)
    config["split"]["validation_pictures"] += 1
    runs.write_config(folder, config)
    resumed = cli("tiny", "--resume", "--data", three, "--out", folder)
    assert_rejected(resumed, "held out 4 images for validation, not 3")
    assert cli("evaluate", folder, "--data", three)[0] == 0
    assert runs.read_evaluation(folder).validation_labels is None


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_unencodable_path_characters_are_printed_as_escapes(monkeypatch, tmp_path, encoding):
    """Windows uses such encodings if the output goes to a file."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding, write_through=True) for _ in range(2))
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    folder = tmp_path / "猫"
    assert run_train_py("tiny", "--smoke", "--out", folder, "--minutes", 1e-6) == 130
    assert run_train_py("report", folder, "--out", tmp_path / "猫.html") == 0
    assert run_train_py("evaluate", tmp_path / "größe 犬") == 2
    printed, errors = (stream.buffer.getvalue().decode(encoding) for stream in (out, err))
    assert printed.count("\\u732b") >= 2 and "\\u72ac" in errors


def test_report_is_one_file_with_disambiguated_run_names(cli, tiny_run, run_copy, tmp_path):
    path = tmp_path / "hand-in.html"
    code, out, _ = cli("report", tiny_run, run_copy, "--out", path)
    assert code == 0
    assert str(path) in out
    page = path.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert f"{tiny_run.name}, {run_copy.name} ({run_copy.parent})" in page


def test_keep_option_saves_the_weights_of_listed_epochs(smoke, tmp_path, tiny_run):
    assert smoke("--save-epochs", "1,3,8")[0] == 0
    run = runs.read_run(tmp_path / "run")
    assert runs.list_saved_epochs(run) == [1, 3]
    first, last, final = (runs.load_model(run, epoch=e).state_dict() for e in (1, 3, None))
    assert not first["head.weight"].equal(last["head.weight"])
    assert all(last[name].equal(tensor) for name, tensor in final.items())
    with pytest.raises(RunError, match="Epochs with weights: 1, 3"):
        runs.load_model(run, epoch=2)
    assert runs.list_saved_epochs(runs.read_run(tiny_run)) == []
    assert smoke("--epochs", 1)[0] == 0  # the same folder again
    assert runs.list_saved_epochs(run) == []


def test_pretraining_run_is_resumed_and_used_as_initial_weights(cli, tmp_path, tiny_run):
    masked, out = tmp_path / "masked", ("--mask-ratio", 0.5, "--mixup", 0)
    out += ("--save-epochs", 1, "--out", masked)
    stopped = cli("tiny", "--smoke", "--epochs", 2, *out, "--minutes", 1e-6)
    assert stopped[0] == 130
    code, out, _ = cli(*parse_printed_command(stopped[1]))
    assert code == 0
    assert read_epochs(masked) == [1, 2]
    assert not (masked / runs.EVALUATION_FILE).exists()
    weights, first = out.split()[-1], runs.weights_path(masked, epoch=1)
    config = runs.read_config(masked)
    assert config["parameters"] == sum(t.numel() for t in load_file(weights).values())

    def start(name, weights, *options):
        arguments = ("--smoke", "--out", tmp_path / name, "--weights", weights, *options)
        assert cli("tiny", *arguments)[0] == 0
        return runs.read_config(tmp_path / name).get("started_from")

    seconds = [record["epoch_seconds"] for record in runs.read_history(masked)]
    origins = start("on", weights, "--epochs", 3), start("1", first, "--epochs", 1)
    for origin, count in zip(origins, (2, 1), strict=True):
        assert (origin["run"], origin["recipe"], origin["epochs"]) == ("masked", "tiny", count)
        assert origin["seconds"] == pytest.approx(sum(seconds[:count]))
        assert origin["command"] == config["command"]
    assert read_losses(tmp_path / "on") != read_losses(tiny_run)
    again = start("again", runs.weights_path(tmp_path / "on"), "--epochs", 1)
    assert again["started_from"] == origins[0]
    assert runs.read_run(tmp_path / "again").epochs_before == [3, 2]
    sources = (weights, runs.weights_path(tmp_path / "on"))  # a trained head is kept
    for name, source, seed in zip(("new", "same"), sources, (1, 0), strict=True):
        start(name, source, "--epochs", 1, "--learning-rate", 1e-12, "--seed", seed)
        head = [
            load_file(path)["head.weight"] for path in (source, tmp_path / name / runs.WEIGHTS_FILE)
        ]
        assert head[0].equal(head[1]) == (name == "same")
    other = cli("tiny", "--smoke", "--out", tmp_path / "told", "--weights", sources[1], "--seed", 1)
    assert_rejected(other, "with seed 0, not 1", "validation images of this run")
    assert_rejected(cli("evaluate", masked), "self-supervised", f"--weights {weights}")
    code, _, err = cli("report", masked, tiny_run, "--out", tmp_path / "report.html")
    assert code == 0 and "not in the report" in err
    code, _, err = cli("report", masked, "--out", tmp_path / "none.html")
    assert code == 2 and "at least one run" in err


def test_teacher_must_have_the_same_classes_and_split(cli, tiny_run, three_run, tmp_path):
    out = tmp_path / "student"

    def distil(folder, *more):
        return cli("tiny", "--smoke", "--out", out, "--teacher", folder, *more)

    assert distil(tiny_run, "--epochs", 3)[0] == 0
    assert runs.read_config(out)["recipe"]["teacher"] == str(tiny_run)
    assert read_losses(out) != read_losses(tiny_run)
    assert_rejected(distil(tmp_path), f"no teacher model in '{tmp_path}'", "--teacher")
    assert_rejected(distil(three_run), "other classes (ant, bee, cow")
    assert_rejected(distil(tiny_run, "--seed", 1), "seed 0, not 1", "validation images of this run")


def test_failed_compilation_is_recorded_as_off(smoke, monkeypatch, tmp_path):
    def fail(function, mode):
        def compiled(*args):
            raise RuntimeError("no C compiler")

        return compiled

    monkeypatch.setattr(trainer, "compile_static", fail)
    code, _, err = smoke("--compile", "default", "--epochs", 1)
    assert code == 0
    assert "continues without compilation" in err
    assert runs.read_config(tmp_path / "run")["compile"] == "off"


def test_diverged_run_ends_with_an_error_message(smoke):
    code, _, err = smoke("--optimizer", "sgd", "--learning-rate", 1e30, "--ema-decay", 0)
    assert code == 2
    assert "lower --learning-rate" in err
    assert "Traceback" not in err


# --- interruptions -------------------------------------------------------------------------------


def interrupt_at(monkeypatch, owner, name, call, error):
    """Make the function `owner.name` raise `error` at call number `call`, counted from 1."""
    function, calls = getattr(owner, name), iter(range(1, 10_000))

    def wrapped(*arguments, **options):
        if next(calls) == call:
            raise error
        return function(*arguments, **options)

    monkeypatch.setattr(owner, name, wrapped)


@pytest.mark.parametrize(
    ("owner", "name", "call", "interval", "saved"),
    [
        (progress_bar, "update_progress_bar", 1, 0.0, 0),
        (progress_bar, "update_progress_bar", 2, 0.0, 1),
        (files, "append_record", 2, 0.0, 1),
        (files, "write_checkpoint", 3, 0.0, 1),
        (progress_bar, "update_progress_bar", 3, 1000.0, 2),  # then a pending checkpoint is written
    ],
    ids=["at first", "in an epoch", "before its record", "before its checkpoint", "waiting"],
)
def test_ctrl_c_keeps_finished_epochs_and_allows_resume(
    cli, smoke, monkeypatch, tmp_path, tiny_run, owner, name, call, interval, saved
):
    folder = tmp_path / "run"
    monkeypatch.setattr(writer, "CHECKPOINT_INTERVAL", interval)
    with monkeypatch.context() as patch:
        interrupt_at(patch, owner, name, call, KeyboardInterrupt)
        # On this clock, no epoch takes a second: the progress is reported at its end only.
        clock = itertools.count(step=0.001)
        patch.setattr(trainer.time, "perf_counter", clock.__next__)
        code, out, _ = smoke()
    initial = runs.read_config(folder)
    assert code == 130
    assert f"{saved} of 3 epochs" in out
    assert cli(*parse_printed_command(out))[0] == 0
    assert read_epochs(folder) == [1, 2, 3]
    assert read_losses(folder) == read_losses(tiny_run)
    assert (folder / runs.WEIGHTS_FILE).read_bytes() == (tiny_run / runs.WEIGHTS_FILE).read_bytes()
    config = runs.read_config(folder)
    assert config["command"] == initial["command"]  # the command that started the run
    assert config["resumed"][0]["after_epoch"] == saved


def test_printed_command_resumes_with_a_custom_dataset(cli, monkeypatch, three, tmp_path):
    with monkeypatch.context() as patch:
        interrupt_at(patch, progress_bar, "update_progress_bar", 1, KeyboardInterrupt)
        code, out, _ = cli("tiny", "--data", three, "--out", tmp_path / "my run")
    assert code == 130
    assert cli(*parse_printed_command(out))[0] == 0
    assert read_epochs(tmp_path / "my run") == [1, 2, 3]


def test_run_stopped_by_time_limit_is_resumable(cli, smoke, tmp_path, tiny_run):
    folder, shorter = tmp_path / "run", tmp_path / "shorter"
    code, out, _ = smoke("--minutes", 1e-6)
    assert code == 130
    assert "1 of 3 epochs" in out
    shutil.copytree(folder, shorter)
    assert cli(*parse_printed_command(out), "--minutes", 1e-6)[0] == 130
    assert cli(*parse_printed_command(out), "--minutes", 10)[0] == 0
    assert read_losses(folder) == read_losses(tiny_run)
    config = runs.read_config(folder)
    assert "--resume" not in config["command"]
    assert [leg["after_epoch"] for leg in config["resumed"]] == [1, 2]
    assert all("--resume" in leg["command"] for leg in config["resumed"])
    # A resumed run may end at another epoch, and its schedule ends there.
    assert cli("tiny", "--smoke", "--resume", "--epochs", 2, "--out", shorter)[0] == 0
    assert read_epochs(shorter) == [1, 2]
    assert runs.read_history(shorter)[-1]["learning_rate"] == 0
    config = runs.read_config(shorter)
    assert config["recipe"]["epochs"] == 2
    assert [leg["epochs_before"] for leg in config["resumed"]] == [3]


@pytest.mark.parametrize("name", ["tiny", "old-tiny"])
def test_a_run_of_a_renamed_recipe_resumes_under_both_names(cli, run_copy, monkeypatch, name):
    monkeypatch.setitem(RECIPE_ALIASES, "old-tiny", "tiny")
    config = runs.read_config(run_copy)
    config["recipe"]["name"] = "old-tiny"
    runs.write_config(run_copy, config)
    assert cli(name, "--resume", "--smoke", "--out", run_copy)[0] == 0


def test_resume_of_a_finished_run_writes_only_missing_files(cli, run_copy, tiny_run):
    (run_copy / runs.WEIGHTS_FILE).unlink()
    assert cli("tiny", "--resume", "--smoke", "--out", run_copy)[0] == 0
    assert (run_copy / runs.WEIGHTS_FILE).read_bytes() == (
        tiny_run / runs.WEIGHTS_FILE
    ).read_bytes()
    assert read_epochs(run_copy) == [1, 2, 3]
    assert "resumed" not in runs.read_config(run_copy)


@pytest.mark.parametrize("name", ["rewrite_history", "write_checkpoint", "write_config"])
def test_run_killed_before_the_first_epoch_can_be_restarted(
    cli, monkeypatch, three, tmp_path, name
):
    options = ("tiny", "--epochs", 1, "--data", three, "--out", tmp_path / "run")
    with monkeypatch.context() as patch:
        interrupt_at(patch, files, name, 1, SystemExit)
        with pytest.raises(SystemExit):
            cli(*options)
    assert cli(*options)[0] == 0


@pytest.mark.parametrize("call", [1, 4, 7], ids=["at once", "in training", "at the end"])
def test_full_disk_is_reported_and_the_run_is_resumable(smoke, monkeypatch, tmp_path, call):
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with monkeypatch.context() as patch:
        interrupt_at(patch, os, "replace", call, error)
        code, _, err = smoke()
    assert code == 2
    assert "train.py: No space left on device" in err and "Traceback" not in err
    assert ("continue with --resume" in err) == (call > 1)
    assert ("No epoch is saved" in err) == (call == 1)
    assert smoke(*["--resume"] * (call > 1))[0] == 0
    assert read_epochs(tmp_path / "run") == [1, 2, 3]
    assert not [path for path in (tmp_path / "run").iterdir() if path.name.startswith(".")]


def test_ctrl_c_during_data_loading_exits_with_130(cli, monkeypatch, tmp_path):
    interrupt_at(monkeypatch, synthetic, "make_synthetic_images", 1, KeyboardInterrupt)
    assert cli("vit-small-cpu", "--smoke", "--out", tmp_path / "run")[0] == 130


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_the_current_step(
    cli, smoke, monkeypatch, tmp_path, tiny_run, signal_number
):
    with monkeypatch.context() as patch:
        signals = [signal_number]
        send = lambda *_: signals and signal.raise_signal(signals.pop())  # noqa: E731
        patch.setattr(progress_bar, "update_progress_bar", send)
        # The first report comes after a second, or after the last step of an epoch.
        patch.setattr(trainer.time, "perf_counter", map(float, itertools.count(step=2)).__next__)
        code, out, err = smoke()
    assert code == 130 and err.count("Press Ctrl-C again to stop immediately.") == 1
    folder = tmp_path / "run"
    assert "Stopped. 0 of 3 epochs and 2 steps of the next epoch are saved" in out
    assert runs.read_checkpoint(folder)["progress"]["step"] == 2
    assert [(line["epoch"], line["step"]) for line in read_steps(folder)] == [(1, 1), (1, 2)]
    assert cli("--smoke", "--out", folder, "--resume")[0] == 0  # with the recipe of the run
    assert runs.read_run(folder).config["resumed"][0]["after_step"] == 2
    assert (folder / WEIGHTS).read_bytes() == (tiny_run / WEIGHTS).read_bytes()
    steps = [(line["epoch"], line["step"]) for line in read_steps(folder)]
    assert steps == sorted({*steps}) and steps[0] == (1, 1) and steps[-1][0] == 3


def test_a_second_ctrl_c_ends_training_at_once(smoke, monkeypatch, tmp_path):
    def press_twice(*_):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(progress_bar, "update_progress_bar", press_twice)
    code, out, _ = smoke()
    assert code == 130 and "Stopped. 0 of 3 epochs are saved" in out
    assert runs.read_checkpoint(tmp_path / "run")["progress"] is None


def test_a_recipe_file_trains_the_same_model_as_the_recipe(cli, tiny_run, tmp_path):
    config, again = tiny_run / "config.json", tmp_path / "again"
    recipe = tmp_path / "recipe.json"
    recipe.write_text(json.dumps(json.loads(config.read_text())["recipe"]))
    for file in (config, recipe):
        shutil.rmtree(again, ignore_errors=True)
        options = ("--config", file, "--smoke", "--epochs", 3, "--out", again)
        assert cli(*options)[0] == 0
        assert (again / WEIGHTS).read_bytes() == (tiny_run / WEIGHTS).read_bytes()


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (None, (), "Cannot read the recipe in"),
        ("{", (), "Cannot read the recipe in"),
        ("[]", (), "has no recipe"),
        ('{"name": "x", "speed": 3}', (), "a field 'speed' that this version does not support"),
        ('{"name": "x"}', (), "missing or invalid field: 'model'"),
        ("{}", ("tiny",), "Give the recipe 'tiny' or --config, but not both"),
    ],
)
def test_invalid_recipe_files_are_refused(cli, tmp_path, content, options, message):
    file = tmp_path / "recipe.json"
    if content:
        file.write_text(content)
    code, _, err = cli(*options, "--config", file, "--smoke", "--out", tmp_path / "run")
    assert code == 2 and message in err and "Traceback" not in err


def test_two_processes_cannot_train_the_same_run(smoke, tmp_path):
    folder = tmp_path / "run"
    with writer.lock_run_folder(folder):
        code, _, err = smoke()
        assert code == 2 and f"Another process trains the run in '{folder}'" in err
    assert not folder.exists()
    assert smoke("--epochs", 1)[0] == 0
    assert writer.LOCK_FILE not in [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_deferred_in_an_uninterrupted_block(signal_number):
    handler = signal.signal(signal_number, signal.default_int_handler)
    try:
        with handle_signals(STOP_SIGNALS, signal.SIG_IGN):
            signal.raise_signal(signal_number)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal_number)
    finally:
        signal.signal(signal_number, handler)


@pytest.mark.parametrize(("compiling", "late"), [(0, True), (100, False)])
def test_time_estimate_of_an_epoch_excludes_compilation(compiling, late):
    trainer = SimpleNamespace(
        compile_seconds=compiling, processes=Processes(), device=torch.device("cpu")
    )
    deadline = time.monotonic() + 50
    assert train.would_exceed_deadline(trainer, {"epoch_seconds": 101.0}, deadline) == late


@pytest.mark.parametrize(
    ("epoch", "saved"), [(30, [1, 2, 3, 4]), (12, [1, 2, 3, 4]), (9, [2, 4]), (4, [4])]
)
def test_checkpoints_are_written_each_epoch_or_every_20_seconds(
    tmp_path, monkeypatch, epoch, saved
):
    clock, written = [0.0], []
    monkeypatch.setattr(writer, "CHECKPOINT_INTERVAL", 20.0)
    monkeypatch.setattr(writer.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(files, "write_checkpoint", lambda _, state: written.append(state["epoch"]))
    trainer = SimpleNamespace(recipe=SimpleNamespace(saved_epochs=()), compile="off")
    saver = writer.EpochSaver(tmp_path, trainer)
    for number in (1, 2, 3, 4):
        clock[0] += epoch
        trainer.state_dict = lambda number=number: {"epoch": number}
        saver.save({"epoch": number})
    assert written == saved


# --- several processes ---------------------------------------------------------------------------

TWO_PROCESS_OPTIONS = (
    "--smoke --epochs 2 --batch-size 32 --device cpu --optimizer adamw --clip-norm 1 --depth 2 "
    "--embed-dim 48 --num-heads 2 --policy auto --erasing 0.5 --cutout 4 --mixup 0.4 --cutmix 1 "
    "--no-mixup-epochs 1"
)
PRETRAINING_OPTIONS = " --mixup 0 --cutmix 0 --mask-ratio 0.5"


def run_two_processes(arguments, log):
    """Return the output of two processes that torchrun's variables connect."""
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    shared |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    ranks = [{"RANK": rank, "LOCAL_RANK": rank} for rank in "01"]
    processes = [
        start_fork("vitdemo.cli.train", arguments, log, variables=shared | rank) for rank in ranks
    ]
    for process in processes:
        process.join(timeout=300)
    assert [process.exitcode for process in processes] == [0, 0], log.read_text()
    return log.read_text()


@pytest.mark.parametrize("more", ["", PRETRAINING_OPTIONS], ids=["with labels", "without"])
def test_two_processes_have_the_same_losses_as_one(cli, tmp_path, more):
    one, two = tmp_path / "one", tmp_path / "two"
    arguments = ["vit-small-cpu", *(TWO_PROCESS_OPTIONS + more).split(), "--threads", "1"]
    assert cli(*arguments, "--out", one)[0] == 0
    printed = run_two_processes([*arguments, "--out", str(two)], tmp_path / "log")
    end = "encoder is trained" if more else "test_accuracy"
    assert printed.count(end) == 1  # only the first process prints
    config = runs.read_config(two)
    assert config["processes"] == 2
    assert config["command"].startswith("torchrun --nproc_per_node=2 train.py vit-small-cpu ")
    assert len(read_losses(two)) == 2
    assert "stopped" not in config
    for single, split in zip(read_losses(one), read_losses(two), strict=True):
        assert split == pytest.approx(single, rel=2e-3)  # bfloat16 if the processor supports it


def test_two_processes_stop_together_and_evaluate(tmp_path):
    options = f"{TWO_PROCESS_OPTIONS} --epochs 99 --keep-after 1e-6 --threads 1 --out"
    args = ["vit-small-cpu", *options.split(), str(tmp_path / "run")]
    run_two_processes(args, tmp_path / "log")
    run = runs.read_run(tmp_path / "run")
    assert run.has_evaluation and run.has_weights
    stopped = run.config["stopped"]
    assert (stopped["epoch"] - 1) * stopped["steps"] + stopped["step"] == STOP_CHECK_STEPS


def test_torchrun_processes_stop_at_the_time_limit_and_save(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    command += ["train.py", "vit-small-cpu", *TWO_PROCESS_OPTIONS.split(), "--threads", "1"]
    command += ["--minutes", "1e-6", "--out", str(tmp_path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert result.returncode == 1  # torchrun's exit code for our 130
    assert "1 of 2 epochs are saved" in result.stdout, result.stderr
    assert runs.read_checkpoint(tmp_path)["epoch"] == len(read_losses(tmp_path)) == 1
