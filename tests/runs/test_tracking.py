"""Logs of a run for TensorBoard and trackio (`train.py --log`).

Each test runs with a stand-in that stores values in a file, and with the real package if it is
installed.
"""

import json
import os
import shlex
import signal
import sys
from collections import defaultdict
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from torch.distributed.run import get_args_parser

from tests.support.factories import run_train_py
from vitdemo import runs
from vitdemo.cli import train
from vitdemo.metrics.intervals import wilson_interval
from vitdemo.runs.steps import STEPS_FILE, read_steps
from vitdemo.runs.tracking import count_steps, open_progress_log
from vitdemo.training.pretraining import ACCURACY_FIELDS, MASKED_STAGE
from vitdemo.training.stopping import Stopper

pytestmark = [
    pytest.mark.usefixtures("tiny_recipe"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of the two packages
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # trackio leaves files open
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
STEPS_PER_EPOCH = 10
Points = dict[str, list[tuple[int, float]]]  # steps and values by name


def add_module(monkeypatch, name: str, **content) -> None:
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, loader=None)
    module.__dict__.update(content)
    monkeypatch.setitem(sys.modules, name, module)


def read_json_lines(path: Path) -> list:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def add_json_line(path: Path, line: object) -> None:
    with open(path, "a") as file:
        file.write(json.dumps(line) + "\n")


class StandInTensorBoard:
    """`SummaryWriter` with the rule of `purge_step`, in a JSON file."""

    def __init__(self, monkeypatch, tmp_path):
        class SummaryWriter:
            def __init__(self, log_dir, purge_step, flush_secs):
                self.path, self.waiting = get_stand_in_path(log_dir), []
                kept = [p for p in read_json_lines(self.path) if p[1] < purge_step]
                self.path.write_text("".join(json.dumps(point) + "\n" for point in kept))

            def add_scalar(self, tag, value, step):
                self.waiting.append((tag, step, value))

            def close(self):
                for point in self.waiting:
                    add_json_line(self.path, point)

        add_module(monkeypatch, "tensorboard")
        add_module(monkeypatch, "torch.utils.tensorboard", SummaryWriter=SummaryWriter)

    def read(self, folder: Path) -> Points:
        points = defaultdict(list)
        for tag, step, value in read_json_lines(get_stand_in_path(folder)):
            points[tag].append((step, value))
        return points


def get_stand_in_path(folder: Path | str) -> Path:
    return Path(folder) / "events.out.tfevents.stand-in"


class RealTensorBoard:
    """The installed package."""

    def __init__(self, monkeypatch, tmp_path):
        pytest.importorskip("tensorboard")

    def read(self, folder: Path) -> Points:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        events = EventAccumulator(str(folder)).Reload()
        return {
            tag: [(event.step, event.value) for event in events.Scalars(tag)]
            for tag in events.Tags()["scalars"]
        }


class StandInTrackio:
    """`trackio` with a file of [run, step, values] instead of its database."""

    def __init__(self, monkeypatch, tmp_path):
        self.store, self.waiting = tmp_path / "trackio", []
        add_module(
            monkeypatch,
            "trackio",
            init=self.init,
            log=lambda values, step: self.waiting.append([self.name, step, values]),
            finish=self.finish,
        )

    def init(self, project, name, config, resume, embed):
        assert (project, resume, embed) == ("vitdemo", "allow", False)
        assert config["recipe"]["name"] == "tiny"
        self.name = name
        steps = [step for run, step, _ in read_json_lines(self.store) if run == name]
        return SimpleNamespace(_next_step=max(steps, default=-1) + 1)

    def finish(self):
        for line in self.waiting:
            add_json_line(self.store, line)
        self.waiting = []

    def read(self, folder: Path) -> Points:
        points = defaultdict(list)
        for run, step, values in read_json_lines(self.store):
            assert run.startswith(f"{folder.name}-2")
            for name, value in values.items():
                points[name].append((step, value))
        return points


class RealTrackio:
    """The installed package, with its database in a temporary folder."""

    def __init__(self, monkeypatch, tmp_path):
        pytest.importorskip("trackio")
        from trackio import context_vars, sqlite_storage, utils

        for module in (utils, sqlite_storage):
            monkeypatch.setattr(module, "TRACKIO_DIR", tmp_path / "trackio")
        context_vars.current_project.set(None)

    def read(self, folder: Path) -> Points:
        import trackio
        from trackio.sqlite_storage import SQLiteStorage

        (run,) = trackio.Api().runs("vitdemo")
        assert run.name.startswith(f"{folder.name}-2")
        assert run.config["recipe"]["name"] == "tiny"
        points = defaultdict(list)
        for line in SQLiteStorage.get_logs("vitdemo", run.name, run_id=run.id):
            for name, value in line.items():
                if name not in ("step", "timestamp"):
                    points[name].append((line["step"], value))
        return points


TOOLS = {
    "tensorboard": StandInTensorBoard,
    "trackio": StandInTrackio,
    "tensorboard (installed)": RealTensorBoard,
    "trackio (installed)": RealTrackio,
}


@pytest.fixture(params=TOOLS)
def tool(request, monkeypatch, tmp_path):
    tool = TOOLS[request.param](monkeypatch, tmp_path)
    tool.name_of_option = request.param.split()[0]
    return tool


@pytest.fixture
def log_smoke(tool, tmp_path):
    """Return a function that trains the tiny recipe with `--log`; returns its exit code."""
    options = ("tiny", "--smoke", "--epochs", 3, "--out", tmp_path / "run")
    return lambda *more: run_train_py(*options, "--log", tool.name_of_option, *more)


def assert_equals_records(points: Points, folder: Path, steps_per_epoch: int) -> None:
    """Compare all values with history.jsonl and steps.jsonl, in the order of their steps."""
    expected = defaultdict(list)
    for line in read_steps(folder):
        step = (line["epoch"] - 1) * line["steps"] + line["step"]
        for name in ("loss", "accuracy"):
            expected[f"step/{name}"].append((step, line[name]))
    for record in runs.read_history(folder):
        step = record["epoch"] * steps_per_epoch
        expected["epoch"].append((step, record["epoch"]))
        for name in set(record) - {"epoch", "stage"}:
            expected[f"epoch/{name}"].append((step, record[name]))
    logged = {name: values for name, values in points.items() if not name.startswith("test/")}
    assert set(logged) == set(expected)
    for name, values in expected.items():
        assert [step for step, _ in logged[name]] == [step for step, _ in values], name
        assert [value for _, value in logged[name]] == pytest.approx([value for _, value in values])


def assert_ends_with_test_accuracy(points: Points, folder: Path) -> None:
    evaluation = runs.read_run(folder).evaluation
    n = len(evaluation.labels)
    hits = int((evaluation.probabilities.argmax(1) == evaluation.labels).sum())
    low, high = wilson_interval(hits, n)
    last = max(step for step, _ in points["epoch"])
    for name, value in (("", hits / n), ("_low", low), ("_high", high)):
        assert points[f"test/accuracy{name}"] == [(last + 1, pytest.approx(value))]


def test_log_equals_the_records_of_the_run(tool, log_smoke, tmp_path):
    assert log_smoke() == 0
    points, folder = tool.read(tmp_path / "run"), tmp_path / "run"
    steps_per_epoch = read_steps(folder)[-1]["steps"]
    assert len(points["epoch/val_accuracy"]) == 3
    assert_equals_records(points, folder, steps_per_epoch)
    assert_ends_with_test_accuracy(points, folder)


def test_run_that_is_paused_and_resumed_has_one_log(tool, log_smoke, tmp_path, monkeypatch, capsys):
    folder, should_pause, calls = tmp_path / "run", Stopper.should_pause, iter(range(1, 1000))

    def pause_in_second_epoch(stopper):
        if next(calls) == 6:  # not called after the fifth step, which is the last one
            os.kill(os.getpid(), signal.SIGTERM)
        return should_pause(stopper)

    with monkeypatch.context() as patch:
        patch.setattr(Stopper, "should_pause", pause_in_second_epoch)
        assert log_smoke() == 130
    assert f"--log {tool.name_of_option} --out" in capsys.readouterr().out
    paused = tool.read(folder)
    assert paused["epoch"] == [(5, 1)]
    assert [step for step, _ in paused["step/loss"]][-2:] == [5, 7]
    assert "test/accuracy" not in paused
    assert log_smoke("--resume") == 0
    points = tool.read(folder)
    assert_equals_records(points, folder, read_steps(folder)[-1]["steps"])
    assert_ends_with_test_accuracy(points, folder)
    assert log_smoke("--resume") == 0  # a finished run is only evaluated again
    assert {n: sorted(p) for n, p in tool.read(folder).items()} == {
        n: sorted(p) for n, p in points.items()
    }


def test_resumed_run_adds_the_epochs_before_its_first_log(tool, log_smoke, tmp_path):
    folder = tmp_path / "run"
    assert run_train_py("tiny", "--smoke", "--epochs", 3, "--out", folder) == 0
    assert log_smoke("--resume") == 0
    points = tool.read(folder)
    assert_equals_records(points, folder, read_steps(folder)[-1]["steps"])
    assert_ends_with_test_accuracy(points, folder)


def make_line(epoch: int, step: int, loss: float) -> dict:
    return {"epoch": epoch, "step": step, "steps": STEPS_PER_EPOCH, "loss": loss, "accuracy": 0.5}


def make_record(epoch: int, loss: float) -> dict:
    """Return the record of an epoch of self-supervised pretraining, which has no accuracies."""
    numbers = dict.fromkeys(runs.RECORD_FIELDS, 0.5) | dict.fromkeys(ACCURACY_FIELDS)
    return numbers | {"epoch": epoch, "stage": MASKED_STAGE, "val_loss": loss}


def write_records(folder: Path, losses: list[float]) -> None:
    """Write the records of a run with two lines per epoch and these losses by epoch."""
    folder.mkdir(exist_ok=True)
    config = {"recipe": {"name": "tiny"}, "started": "2026-11-27T10:00:00+00:00"}
    runs.write_config(folder, config | {"model": {}, "classes": [], "normalisation": {}})
    history, lines = [], []
    for epoch, loss in enumerate(losses, 1):
        lines += [make_line(epoch, 5, loss) | {"seconds": epoch}]
        lines += [make_line(epoch, 10, loss) | {"seconds": epoch}]
        history.append(make_record(epoch, loss))
    runs.rewrite_history(folder, history)
    (folder / STEPS_FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_repeated_epochs_of_a_killed_run_are_logged_once(tool, tmp_path):
    """A process was killed in epoch 3, after the checkpoint of epoch 1."""
    folder, trainer = tmp_path / "run", SimpleNamespace(steps=STEPS_PER_EPOCH)
    write_records(folder, [3.0, 2.0])
    log = open_progress_log([tool.name_of_option], folder, trainer)
    log.add_line(make_line(3, 5, 1.0))
    log.add_line(make_line(3, 10, 1.0))  # without its record, because validation was not finished
    log.close()
    write_records(folder, [3.0])
    log = open_progress_log([tool.name_of_option], folder, trainer)
    for epoch, loss in ((2, 2.5), (3, 1.5)):
        log.add_line(make_line(epoch, 5, loss))
        log.add_line(make_line(epoch, 10, loss))
        log.add_record(make_record(epoch, loss))
    log.close()
    points = tool.read(folder)
    assert points["epoch"] == [(10, 1), (20, 2), (30, 3)]
    assert "epoch/val_accuracy" not in points
    # TensorBoard shows the repeated values. trackio keeps the first ones.
    second, third = (2.5, 1.5) if tool.name_of_option == "tensorboard" else (2.0, 1.0)
    assert points["epoch/val_loss"] == [(10, 3.0), (20, second), (30, 1.5)]
    losses = [(5, 3.0), (10, 3.0), (15, second), (20, second), (25, third), (30, 1.5)]
    assert points["step/loss"] == losses


@pytest.mark.parametrize(
    ("record", "count"),
    [
        ({"epoch": 1, "step": 3}, 3),
        ({"epoch": 3, "step": 10}, 30),
        ({"epoch": 3}, 30),
        ({"epoch": 3, "share": 0.4}, 24),  # stopped after 4 of 10 steps
    ],
)
def test_steps_are_counted_from_the_start_of_the_run(record, count):
    assert count_steps(record, STEPS_PER_EPOCH) == count


def test_two_logs_of_one_run(monkeypatch, tmp_path):
    tools = [StandInTensorBoard(monkeypatch, tmp_path), StandInTrackio(monkeypatch, tmp_path)]
    folder = tmp_path / "run"
    options = ("tiny", "--smoke", "--epochs", 1, "--out", folder)
    assert run_train_py(*options, "--log", "tensorboard", "--log", "trackio") == 0
    assert tools[0].read(folder) == tools[1].read(folder)


def forbid_imports(monkeypatch) -> None:
    for name in ("tensorboard", "torch.utils.tensorboard", "trackio"):
        monkeypatch.setitem(sys.modules, name, None)


def test_nothing_is_imported_without_the_option(monkeypatch, tmp_path):
    forbid_imports(monkeypatch)
    assert run_train_py("tiny", "--smoke", "--epochs", 1, "--out", tmp_path / "run") == 0
    assert not [*(tmp_path / "run").glob("events*")]


@pytest.mark.parametrize("name", ["tensorboard", "trackio"])
def test_missing_package_is_named_before_the_run_starts(name, monkeypatch, tmp_path, capsys):
    forbid_imports(monkeypatch)
    assert run_train_py("tiny", "--smoke", "--out", tmp_path / "run", "--log", name) == 2
    message = f"train.py: --log {name} needs the package {name}: install it with `pip install "
    assert capsys.readouterr().err.startswith(message + f"{name}`")
    assert not (tmp_path / "run").exists()


def test_error_of_trackio_names_the_problem_and_the_run_can_be_resumed(
    monkeypatch, tmp_path, capsys
):
    trackio, folder = StandInTrackio(monkeypatch, tmp_path), tmp_path / "run"
    options = ("tiny", "--smoke", "--epochs", 1, "--out", folder)

    def fail(**options):
        raise ValueError("Self-hosted logging requires a write token.")

    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["trackio"], "init", fail)
        assert run_train_py(*options, "--log", "trackio") == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "trackio cannot start: Self-hosted logging requires a write token." in error
    assert "--resume" in error
    assert run_train_py(*options, "--log", "trackio", "--resume") == 0
    assert len(trackio.read(folder)["epoch"]) == 1


@pytest.mark.parametrize(("processes", "option"), [("1", "--log"), ("4", "--track")])
def test_command_to_resume_is_accepted_by_torchrun(monkeypatch, tmp_path, processes, option):
    """Torchrun reads `--log` as an abbreviation of several of its own options."""
    monkeypatch.setenv("LOCAL_WORLD_SIZE", processes)
    arguments = ["tiny", option, "trackio", "--track", "tensorboard"]
    args = train.build_parser().parse_args(arguments)
    assert args.log == ["trackio", "tensorboard"]
    command = shlex.split(train.resume_command(args, tmp_path))
    assert command.count(option) == 2
    if processes != "1":
        launcher = get_args_parser().parse_args(command[1:])
        assert launcher.training_script_args == command[command.index("tiny") :]
