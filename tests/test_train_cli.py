"""train.py as its user meets it: exit codes, one-line errors, and runs that can be gone on with."""

import errno
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

import train
from vitdemo import runs, training
from vitdemo.data import synthetic
from vitdemo.recipes import RECIPES, smoke_recipe
from vitdemo.runs import writer
from vitdemo.runs.steps import STEPS
from vitdemo.training import Processes, bar

THREE = {f"{part}/{name}": 10 for part in ("train", "test") for name in ("ant", "bee", "cow")}
ROOT = Path(train.__file__).parent

pytestmark = pytest.mark.usefixtures("tiny_recipe")


@pytest.fixture(autouse=True)
def _every_checkpoint(monkeypatch):
    monkeypatch.setattr(writer, "CHECKPOINT_SECONDS", 0.0)


@pytest.fixture
def cli(capsys):
    """cli(*arguments) -> (exit code, stdout, stderr)."""
    handler = signal.getsignal(signal.SIGTERM)

    def call(*arguments):
        code = train.main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    yield call
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture
def smoke(cli, tmp_path):
    """smoke(*options) runs the tiny recipe for three epochs into tmp_path / "run"."""
    return lambda *more: cli("tiny", "--smoke", "--epochs", 3, "--out", tmp_path / "run", *more)


@pytest.fixture
def folder_run(cli, put_pictures, tmp_path):
    """(run folder, data folder) of a run on pictures of three classes."""
    data, out = put_pictures(THREE), tmp_path / "run"
    assert cli("tiny", "--data", data, "--out", out, "--epochs", 1)[0] == 0
    return out, data


def epochs(folder):
    return [record["epoch"] for record in runs.read_history(folder)]


def losses(folder):
    return [(r["train_loss"], r["val_loss"]) for r in runs.read_history(folder)]


def assert_refused(result, *words):
    code, out, err = result
    assert (code, out) == (2, "")
    assert err.startswith("train.py: ") and err.count("\n") == 1
    assert all(str(word) in err for word in words), err


@pytest.mark.parametrize("arguments", [(), ("--list",)])
def test_the_recipes_are_listed(cli, arguments):
    code, out, _ = cli(*arguments)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(RECIPES)


def test_an_unknown_recipe_names_the_choices(cli):
    assert_refused(cli("vit-enormous"), "'vit-enormous'", *RECIPES)


def test_a_data_folder_without_train_is_refused(cli, put_pictures, tmp_path):
    data = put_pictures({"holiday": 1})
    assert_refused(cli("tiny", "--data", data, "--out", tmp_path / "run"), data, "train/<class>/")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [("--epochs", 0, "epochs"), ("--optimizer", "adagrad", "adamw"), ("--device", "tpu", "cuda")],
)
def test_a_bad_value_is_named(smoke, option, value, word):
    assert_refused(smoke(option, value), value, word)


@pytest.mark.parametrize("recipe", ["vit-small-cpu", "finetune-deit-tiny"])
def test_smoke_leaves_a_whole_run(cli, tmp_path, recipe):
    short = ("--epochs", 1, "--batch-size", 64, "--device", "cpu")
    code, out, _ = cli(recipe, "--smoke", *short, "--out", tmp_path / "r")
    files = {runs.CONFIG, runs.HISTORY, runs.WEIGHTS, runs.EVALUATION, runs.CHECKPOINT, STEPS}
    assert code == 0
    assert {path.name for path in (tmp_path / "r").iterdir()} == files
    assert json.loads(out.splitlines()[-1])["test_pictures"] == len(synthetic())


def test_smoke_takes_a_recipe_of_two_stages_and_fewer_pictures(
    cli, monkeypatch, tmp_path, tiny_recipe
):
    recipe = replace(tiny_recipe, name="staged", head_epochs=4, train_pictures=20_000, patience=8)
    monkeypatch.setitem(RECIPES, "staged", recipe)
    assert cli("staged", "--smoke", "--device", "cpu", "--out", tmp_path / "run")[0] == 0
    stages = [record["stage"] for record in runs.read_history(tmp_path / "run")]
    assert stages == ["head", "all", "all"]


@pytest.mark.parametrize("changes", [{}, {"epochs": 1}], ids=["two epochs", "one"])
@pytest.mark.parametrize("name", RECIPES)
def test_smoke_tries_each_part_of_a_recipe(name, changes):
    recipe = smoke_recipe(name, **changes)
    rests = (recipe.mixup or recipe.cutmix) and recipe.unmixed_epochs
    rests = max(rests, recipe.patch_dropout and recipe.whole_epochs)
    assert rests <= recipe.epochs - 1 <= 1
    assert recipe.mixup == RECIPES[name].mixup


def test_a_recipes_field_can_be_set(smoke, tmp_path):
    assert smoke("--learning-rate", "0.01", "--label-smoothing", "0.2")[0] == 0
    recipe = runs.read_config(tmp_path / "run")["recipe"]
    assert (recipe["learning_rate"], recipe["label_smoothing"]) == (0.01, 0.2)


def test_a_run_is_not_overwritten(cli, run_copy, put_pictures):
    before = (run_copy / runs.WEIGHTS).read_bytes()
    assert_refused(cli("tiny", "--data", put_pictures(THREE), "--out", run_copy), "--resume")
    assert (run_copy / runs.WEIGHTS).read_bytes() == before


def test_resume_of_another_recipe_is_refused(cli, run_copy):
    result = cli("vit-small-cpu", "--resume", "--smoke", "--out", run_copy)
    assert_refused(result, "'tiny'", "'vit-small-cpu'")


def test_resume_with_another_value_is_refused(cli, run_copy):
    result = cli("tiny", "--resume", "--smoke", "--learning-rate", 0.5, "--out", run_copy)
    assert_refused(result, "learning_rate 0.001, not 0.5")


def test_a_run_that_goes_on_may_end_at_another_epoch(cli, smoke, tmp_path):
    folder = tmp_path / "run"
    assert smoke("--minutes", 1e-6)[0] == 130  # stopped after one epoch of three
    assert epochs(folder) == [1]
    assert cli("tiny", "--smoke", "--resume", "--epochs", 2, "--out", folder)[0] == 0
    assert epochs(folder) == [1, 2]
    assert runs.read_history(folder)[-1]["learning_rate"] == 0  # the schedule ends there
    config = runs.read_config(folder)
    assert config["recipe"]["epochs"] == 2
    assert [leg["epochs_before"] for leg in config["resumed"]] == [3]


@pytest.mark.parametrize("total", [2, 4])
def test_a_finished_run_does_not_end_elsewhere(cli, run_copy, total):
    result = cli("tiny", "--resume", "--smoke", "--epochs", total, "--out", run_copy)
    assert_refused(result, "has 3 of 3 epochs", f"end after {total}")


def test_resume_on_other_pictures_is_refused(cli, run_copy, put_pictures):
    result = cli("tiny", "--resume", "--data", put_pictures(THREE), "--out", run_copy)
    assert_refused(result, "other training pictures")


def test_resume_of_nothing_is_refused(cli, tmp_path):
    assert_refused(cli("tiny", "--resume", "--smoke", "--out", tmp_path), "not a run")


def test_resume_of_a_recipe_from_another_version_is_refused(cli, run_copy):
    config = runs.read_config(run_copy)
    config["recipe"]["colour"] = 1
    runs.write_config(run_copy, config)
    assert_refused(cli("tiny", "--resume", "--smoke", "--out", run_copy), "'colour'")


def test_resume_of_a_finished_run_only_writes_what_is_missing(cli, run_copy, tiny_run):
    (run_copy / runs.WEIGHTS).unlink()
    assert cli("tiny", "--resume", "--smoke", "--out", run_copy)[0] == 0
    assert (run_copy / runs.WEIGHTS).read_bytes() == (tiny_run / runs.WEIGHTS).read_bytes()
    assert epochs(run_copy) == [1, 2, 3]
    assert "resumed" not in runs.read_config(run_copy)


def interrupt_at(monkeypatch, owner, name, call, error):
    """Let the function `owner.name` raise `error` in place of its call number `call` (from 1)."""
    function, calls = getattr(owner, name), iter(range(1, 10_000))

    def wrapped(*arguments, **options):
        if next(calls) == call:
            raise error
        return function(*arguments, **options)

    monkeypatch.setattr(owner, name, wrapped)


@pytest.mark.parametrize(
    ("owner", "name", "call"),
    [(bar, "show", 2), (runs, "append_record", 2), (runs, "write_checkpoint", 3)],
    ids=["in an epoch", "before its record", "before its checkpoint"],
)
def test_ctrl_c_loses_nothing_finished(
    cli, smoke, monkeypatch, tmp_path, tiny_run, owner, name, call
):
    with monkeypatch.context() as patch:
        interrupt_at(patch, owner, name, call, KeyboardInterrupt)
        code, out, _ = smoke()
    assert code == 130
    assert "1 of 3 epochs" in out
    assert cli(*shlex.split(out.split("python train.py ")[1]))[0] == 0
    assert epochs(tmp_path / "run") == [1, 2, 3]
    assert losses(tmp_path / "run") == losses(tiny_run)
    weights = [(run / runs.WEIGHTS).read_bytes() for run in (tmp_path / "run", tiny_run)]
    assert weights[0] == weights[1]


def test_a_checkpoint_that_waits_is_written_when_the_run_stops(
    cli, smoke, monkeypatch, tmp_path, tiny_run
):
    monkeypatch.setattr(writer, "CHECKPOINT_SECONDS", 1000.0)
    with monkeypatch.context() as patch:
        interrupt_at(patch, bar, "show", 3, KeyboardInterrupt)
        code, out, _ = smoke()
    assert code == 130
    assert "2 of 3 epochs" in out
    assert cli(*shlex.split(out.split("python train.py ")[1]))[0] == 0
    assert losses(tmp_path / "run") == losses(tiny_run)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_stops_the_writing_of_a_checkpoint(number):
    handler = signal.signal(number, signal.default_int_handler)
    try:
        with train.uninterrupted():
            signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    finally:
        signal.signal(number, handler)


def test_short_epochs_share_a_checkpoint(smoke, monkeypatch, tmp_path):
    monkeypatch.setattr(writer, "CHECKPOINT_SECONDS", 1000.0)
    written, write = [], runs.write_checkpoint
    monkeypatch.setattr(
        runs, "write_checkpoint", lambda folder, s: written.append(s["epoch"]) or write(folder, s)
    )
    assert smoke()[0] == 0
    assert written == [0, 3]
    assert runs.read_checkpoint(tmp_path / "run")["epoch"] == 3


@pytest.mark.parametrize(("compiling", "late"), [(0, True), (100, False)])
def test_another_epoch_is_not_expected_to_compile(compiling, late):
    trainer = SimpleNamespace(
        compile_seconds=compiling, processes=Processes(), device=torch.device("cpu")
    )
    deadline = time.monotonic() + 50
    assert train.too_late(trainer, {"epoch_seconds": 101.0}, deadline) == late


def test_a_run_out_of_minutes_can_be_gone_on_with(cli, smoke, tmp_path, tiny_run):
    code, out, _ = smoke("--minutes", 1e-6)
    assert code == 130
    assert "1 of 3 epochs" in out
    command = shlex.split(out.split("python train.py ")[1])
    assert cli(*command, "--minutes", 1e-6)[0] == 130
    assert cli(*command, "--minutes", 10)[0] == 0
    assert losses(tmp_path / "run") == losses(tiny_run)
    config = runs.read_config(tmp_path / "run")
    assert "--resume" not in config["command"]
    assert [leg["after_epoch"] for leg in config["resumed"]] == [1, 2]
    assert all("--resume" in leg["command"] for leg in config["resumed"])


def test_a_run_that_is_killed_in_its_first_epoch_keeps_the_command_that_began_it(
    cli, smoke, monkeypatch, tmp_path, tiny_run
):
    with monkeypatch.context() as patch:
        interrupt_at(patch, bar, "show", 1, KeyboardInterrupt)
        _, out, _ = smoke()
    began = runs.read_config(tmp_path / "run")
    assert cli(*shlex.split(out.split("python train.py ")[1]))[0] == 0
    config = runs.read_config(tmp_path / "run")
    assert config["command"] == began["command"]
    assert config["resumed"][0]["after_epoch"] == 0
    assert losses(tmp_path / "run") == losses(tiny_run)


def test_kept_epochs_stay_in_the_run_folder(smoke, tmp_path, tiny_run):
    assert smoke("--keep", "1,3,8")[0] == 0
    run = runs.read_run(tmp_path / "run")
    assert runs.kept_epochs(run) == [1, 3]
    first, last, final = (runs.load_model(run, epoch=e).state_dict() for e in (1, 3, None))
    assert not first["head.weight"].equal(last["head.weight"])
    assert all(last[name].equal(tensor) for name, tensor in final.items())
    with pytest.raises(runs.RunError, match="no weights of epoch 2: those that it kept are 1, 3"):
        runs.load_model(run, epoch=2)
    assert runs.kept_epochs(runs.read_run(tiny_run)) == []
    assert smoke()[0] == 0  # the same folder again
    assert runs.kept_epochs(run) == []


def test_the_input_size_can_be_set_and_stays(smoke, tmp_path):
    assert smoke("--image-size", 24, "--epochs", 1)[0] == 0
    assert runs.read_config(tmp_path / "run")["input_size"] == 24
    assert runs.load_model(runs.read_run(tmp_path / "run")).patch_embed.grid_size == (3, 3)
    assert_refused(smoke("--epochs", 1, "--image-size", 16, "--resume"), "image_size 24, not 16")


def test_a_training_without_labels_can_be_gone_on_with_and_started_from(cli, tmp_path):
    masked, out = tmp_path / "masked", ("--mask-ratio", 0.5, "--mixup", 0)
    out += ("--keep", 1, "--out", masked)
    began = cli("tiny", "--smoke", "--epochs", 2, *out, "--minutes", 1e-6)
    assert began[0] == 130
    code, out, _ = cli(*shlex.split(began[1].split("python train.py ")[1]))
    assert code == 0
    assert epochs(masked) == [1, 2]
    assert not (masked / runs.EVALUATION).exists()
    weights = out.split()[-1]
    config = runs.read_config(masked)
    assert config["parameters"] == sum(t.numel() for t in load_file(weights).values())
    assert cli("tiny", "--smoke", "--out", tmp_path / "on", "--weights", weights)[0] == 0
    first = runs.weights_path(masked, epoch=1)
    assert cli("tiny", "--smoke", "--out", tmp_path / "1", "--weights", first)[0] == 0
    for name, count in (("on", 2), ("1", 1)):
        origin = runs.read_config(tmp_path / name)["started_from"]
        assert (origin["run"], origin["recipe"], origin["epochs"]) == ("masked", "tiny", count)
        took = [record["epoch_seconds"] for record in runs.read_history(masked)]
        assert origin["seconds"] == pytest.approx(sum(took[:count]))
        assert origin["command"] == config["command"]
    elsewhere = tmp_path / "elsewhere.safetensors"
    elsewhere.write_bytes(first.read_bytes())
    assert cli("tiny", "--smoke", "--out", tmp_path / "else", "--weights", elsewhere)[0] == 0
    assert "started_from" not in runs.read_config(tmp_path / "else")
    hub = tmp_path / "hub"  # a model of the hub's: the names of the files are those of a run
    hub.mkdir()
    (hub / runs.CONFIG).write_text('{"architecture": "vit"}')
    (hub / runs.WEIGHTS).write_bytes(first.read_bytes())
    weights_there = ("--weights", hub / runs.WEIGHTS)
    assert cli("tiny", "--smoke", "--out", tmp_path / "of-hub", *weights_there)[0] == 0
    assert "started_from" not in runs.read_config(tmp_path / "of-hub")
    plain = tmp_path / "plain"
    assert cli("tiny", "--smoke", "--out", plain)[0] == 0
    assert losses(tmp_path / "on") != losses(plain)
    assert_refused(cli("evaluate", masked), "without labels", f"--weights {weights}")
    code, _, err = cli("report", masked, plain, "--out", tmp_path / "report.html")
    assert code == 0
    assert "left out" in err
    code, _, err = cli("report", masked, "--out", tmp_path / "none.html")
    assert code == 2
    assert "at least one run" in err


def test_a_teacher_is_a_run_of_the_same_pictures(cli, tiny_run, folder_run, tmp_path):
    out = tmp_path / "student"

    def taught(folder, *more):
        return cli("tiny", "--smoke", "--out", out, "--teacher", folder, *more)

    assert taught(tiny_run, "--epochs", 3)[0] == 0
    assert runs.read_config(out)["recipe"]["teacher"] == str(tiny_run)
    assert losses(out) != losses(tiny_run)
    assert_refused(taught(tmp_path), f"no teacher in '{tmp_path}'", "--teacher")
    assert_refused(taught(folder_run[0]), "other classes (ant, bee, cow")
    assert_refused(taught(tiny_run, "--seed", 1), "seed 0, not 1", "validates on")


def test_an_unknown_compile_mode_names_the_choices(smoke):
    assert_refused(smoke("--compile", "fast"), "'fast'", "off, default, reduce-overhead")


def test_a_compiler_that_fails_is_not_said_to_have_compiled(smoke, monkeypatch, tmp_path):
    def fail(function, mode):
        def compiled(*args):
            raise RuntimeError("no C compiler")

        return compiled

    monkeypatch.setattr(training, "compiled", fail)
    code, _, err = smoke("--compile", "default")
    assert code == 0
    assert "goes on without it" in err
    assert runs.read_config(tmp_path / "run")["compile"] == "off"


OPTIONS = "--smoke --epochs 3 --batch-size 32 --device cpu --optimizer adamw --clip-norm 1"
OPTIONS += " --policy auto --erasing 0.5 --cutout 4 --mixup 0.4 --cutmix 1 --unmixed-epochs 1"


WITHOUT_LABELS = " --mixup 0 --cutmix 0 --mask-ratio 0.5"


def in_two_processes(*words):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    torchrun += ["--nproc_per_node=2", "train.py", *words]
    return subprocess.run(torchrun, cwd=ROOT, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("more", ["", WITHOUT_LABELS], ids=["with labels", "without"])
def test_two_processes_train_as_one(cli, tmp_path, more):
    one, two = tmp_path / "one", tmp_path / "two"
    words = ["vit-small-cpu", *(OPTIONS + more).split(), "--threads", "1"]
    assert cli(*words, "--out", one)[0] == 0
    done = in_two_processes(*words, "--out", str(two))
    assert done.returncode == 0, done.stderr
    end = "encoder is trained" if more else "test_accuracy"
    assert done.stdout.count(end) == 1  # the first process alone speaks
    config = runs.read_config(two)
    assert config["processes"] == 2
    assert config["command"].startswith("torchrun --nproc_per_node=2 train.py vit-small-cpu ")
    assert len(losses(two)) == 3
    for alone, together in zip(losses(one), losses(two), strict=True):
        assert together == pytest.approx(alone, rel=2e-3)  # bfloat16, where the processor has it


def test_two_processes_that_stop_in_time_save_what_they_did(tmp_path):
    words = ["vit-small-cpu", *OPTIONS.split(), "--threads", "1", "--out", str(tmp_path)]
    done = in_two_processes(*words, "--minutes", "1e-6")
    assert done.returncode == 1  # torchrun's own for our 130
    assert "1 of 3 epochs are saved" in done.stdout, done.stderr
    assert runs.read_checkpoint(tmp_path)["epoch"] == len(losses(tmp_path)) == 1


def test_the_printed_command_goes_on_with_a_folder_of_pictures(
    cli, monkeypatch, put_pictures, tmp_path
):
    with monkeypatch.context() as patch:
        interrupt_at(patch, bar, "show", 1, KeyboardInterrupt)
        code, out, _ = cli("tiny", "--data", put_pictures(THREE), "--out", tmp_path / "my run")
    assert code == 130
    assert cli(*shlex.split(out.split("python train.py ")[1]))[0] == 0
    assert epochs(tmp_path / "my run") == [1, 2, 3]


@pytest.mark.parametrize("name", ["rewrite_history", "write_checkpoint", "write_config"])
def test_a_run_killed_before_it_began_can_be_begun(cli, monkeypatch, put_pictures, tmp_path, name):
    options = ("tiny", "--epochs", 1, "--data", put_pictures(THREE), "--out", tmp_path / "run")
    with monkeypatch.context() as patch:
        interrupt_at(patch, runs, name, 1, SystemExit)
        with pytest.raises(SystemExit):
            cli(*options)
    assert cli(*options)[0] == 0


@pytest.mark.parametrize("call", [1, 4, 7], ids=["at once", "in training", "at the end"])
def test_a_full_disk_is_one_sentence_and_the_run_goes_on(smoke, monkeypatch, tmp_path, call):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with monkeypatch.context() as patch:
        interrupt_at(patch, os, "replace", call, full)
        code, _, err = smoke()
    assert code == 2
    assert "train.py: No space left on device" in err and "Traceback" not in err
    assert smoke(*["--resume"] * (call > 1))[0] == 0
    assert epochs(tmp_path / "run") == [1, 2, 3]
    assert not [path for path in (tmp_path / "run").iterdir() if path.name.startswith(".")]


def test_a_folder_of_three_classes_is_trained_end_to_end(folder_run):
    run = runs.read_run(folder_run[0])
    assert run.classes == ("ant", "bee", "cow")
    assert run.evaluation.probabilities.shape == (30, 3)
    assert runs.load_model(run).head.out_features == 3


def test_evaluate_writes_the_evaluation_again(cli, folder_run):
    folder, data = folder_run
    first = runs.read_evaluation(folder)
    (folder / runs.EVALUATION).unlink()
    code, out, _ = cli("evaluate", folder, "--data", data)
    again = runs.read_evaluation(folder)
    share = (again.probabilities.argmax(1) == again.labels).mean()
    assert code == 0
    assert json.loads(out)["test_accuracy"] == pytest.approx(share)
    assert again.probabilities.tolist() == first.probabilities.tolist()
    assert again.fingerprint == first.fingerprint
    assert again.validation_probabilities.tolist() == first.validation_probabilities.tolist()
    assert again.validation_labels.tolist() == first.validation_labels.tolist()


def test_the_validation_pictures_are_evaluated_too(folder_run):
    run = runs.read_run(folder_run[0])
    predicted, labels = run.evaluation.validation_probabilities, run.evaluation.validation_labels
    assert (predicted.shape, labels.tolist()) == ((3, 3), [0, 1, 2])
    assert (predicted.argmax(1) == labels).mean() == pytest.approx(run.history[-1]["val_accuracy"])


def test_evaluate_leaves_validation_out_where_the_training_pictures_differ(
    cli, folder_run, put_pictures
):
    folder, _ = folder_run
    code, _, err = cli("evaluate", folder, "--data", put_pictures(THREE | {"train/ant": 11}, "new"))
    again = runs.read_evaluation(folder)
    assert code == 0
    assert "not those of" in err
    assert again.validation_probabilities is again.validation_labels is None


def test_report_writes_one_file_of_the_named_runs(cli, folder_run, tmp_path):
    path = tmp_path / "hand-in.html"
    code, out, _ = cli("report", folder_run[0], "--out", path)
    assert code == 0
    assert str(path) in out
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_report_tells_two_runs_of_one_name_apart(cli, tiny_run, run_copy, tmp_path):
    path = tmp_path / "both.html"
    assert run_copy.name == tiny_run.name
    assert cli("report", tiny_run, run_copy, "--out", path)[0] == 0
    assert f"{tiny_run.name}, {run_copy.name} ({run_copy.parent})" in path.read_text()


def test_report_needs_runs(cli, tmp_path):
    assert_refused(cli("report"), "train.py report runs/NAME")
    assert_refused(cli("report", tmp_path / "none"), tmp_path / "none", "not a run")


def test_evaluate_takes_one_run(cli, folder_run):
    assert_refused(cli("evaluate", folder_run[0], folder_run[0]), "train.py evaluate runs/NAME")


def test_evaluate_on_other_classes_is_refused(cli, folder_run, put_pictures):
    other = put_pictures({"train/cat": 2, "train/dog": 2, "test/cat": 2}, "other")
    assert_refused(cli("evaluate", folder_run[0], "--data", other), "ant, bee, cow")


def test_evaluate_needs_a_run(cli, tmp_path):
    assert_refused(cli("evaluate"), "train.py evaluate runs/NAME")
    assert_refused(cli("evaluate", tmp_path / "none"), tmp_path / "none", "not a run")


def test_download_tells_where_the_data_is(cli, put_pictures):
    code, out, _ = cli("download", "--data", put_pictures(THREE))
    assert code == 0
    assert "3 classes" in out


def test_training_needs_no_library_of_the_page():
    libraries = {"gradio", "captum", "matplotlib", "sklearn", "scipy", "pandas"}
    code = f"import sys, train; print(*{libraries} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == ""


def test_smoke_replaces_its_own_kind_alone(cli, smoke, folder_run):
    out, _ = folder_run
    code, _, err = cli("tiny", "--smoke", "--out", out)
    assert code == 2
    assert "already holds a run" in err
    other = out.parent / "smoke"
    for _ in range(2):
        assert cli("tiny", "--smoke", "--epochs", 1, "--out", other)[0] == 0


def test_ctrl_c_while_the_data_is_read_leaves_without_a_traceback(cli, monkeypatch, tmp_path):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(train.data, "synthetic", interrupt)
    assert cli("vit-small-cpu", "--smoke", "--out", tmp_path / "run")[0] == 130


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [
        ("--crop-padding", 32, "crop_padding 32"),
        ("--mixup", -1, "mixup"),
        ("--head-epochs", -1, "head_epochs"),
        ("--validation-share", 0, "between 0 and 1"),
        ("--train-pictures", 5000, "train_pictures is 5000, of 86"),
        ("--policy", "magic", "none, trivial, rand, auto"),
        ("--keep", "1,two", "keep is '1,two'"),
        ("--keep", "0", "from 1 on"),
        ("--cutout", -1, "cutout"),
    ],
)
def test_a_value_that_cannot_work_is_named_before_the_run(smoke, tmp_path, option, value, word):
    assert_refused(smoke(option, value), word)
    assert not (tmp_path / "run").exists()


def test_a_training_that_diverges_ends_with_a_sentence(smoke):
    code, _, err = smoke("--optimizer", "sgd", "--learning-rate", 1e30, "--ema-decay", 0)
    assert code == 2
    assert "lower --learning-rate" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("field", ["betas", "model", "name"])
def test_a_saved_recipe_without_a_field_is_named(smoke, run_copy, field):
    config = json.loads((run_copy / runs.CONFIG).read_text())
    del config["recipe"][field]
    (run_copy / runs.CONFIG).write_text(json.dumps(config))
    assert_refused(smoke("--out", run_copy, "--resume"), field)


@pytest.mark.parametrize(
    ("epoch", "saved"),
    [(30, [1, 2, 3, 4]), (12, [1, 2, 3, 4]), (9, [2, 4]), (4, [4])],
)
def test_a_killed_training_loses_an_epoch_or_twenty_seconds(tmp_path, monkeypatch, epoch, saved):
    clock = [0.0]
    monkeypatch.setattr(writer, "CHECKPOINT_SECONDS", 20.0)
    monkeypatch.setattr(writer.time, "monotonic", lambda: clock[0])
    written = []
    monkeypatch.setattr(runs, "write_checkpoint", lambda _, state: written.append(state["epoch"]))
    trainer = SimpleNamespace(recipe=SimpleNamespace(kept_epochs=()), compile="off")
    saver = writer.Saver(tmp_path, trainer)
    for number in (1, 2, 3, 4):
        clock[0] += epoch
        trainer.state_dict = lambda number=number: {"epoch": number}
        saver.save({"epoch": number})
    assert written == saved
