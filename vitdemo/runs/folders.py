"""Reading of run folders: one run, or all runs of several root folders."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from vitdemo.data.image_folders import normalize_name
from vitdemo.errors import PretrainingError, RunError
from vitdemo.models import ModelSpec
from vitdemo.runs.files import (
    CONFIG_FILE,
    EVALUATION_FILE,
    FAITHFULNESS_FILE,
    HISTORY_FILE,
    JOB_FILE,
    PROBES_FILE,
    REFERENCE,
    WEIGHTS_FILE,
    read_config,
    read_history,
)
from vitdemo.runs.run import Run
from vitdemo.training import Preprocessing


def read_run(folder: Path | str) -> Run:
    """Read a run of supervised training.

    Raises `RunError` if `folder` is not a readable run, and `PretrainingError` for self-supervised
    pretraining, which makes no predictions.
    """
    run = read_any_run(Path(folder))
    if run.is_pretraining:
        raise PretrainingError(
            f"'{folder}' is a self-supervised pretraining run and makes no predictions. Start a "
            f"recipe from its weights: --weights {run.path / WEIGHTS_FILE}."
        )
    return run


def read_any_run(folder: Path) -> Run:
    """Read a supervised or pretraining run; raises `RunError` if `folder` is not a readable run."""
    stamp = get_run_stamp(folder)  # the stamp comes first, so that the next call notices changes
    config = read_config(folder)
    try:
        norm, spec = config["normalisation"], ModelSpec(**config["model"])
        preprocessing = Preprocessing(spec.image_size, tuple(norm["mean"]), tuple(norm["std"]))
        classes = tuple(normalize_name(str(name)) for name in config["classes"])
        for section in (spec.options, config["recipe"], config.get("data", {})):
            section.keys()  # an AttributeError means that the section is not a dict
    except (KeyError, TypeError, AttributeError) as error:
        raise RunError(
            f"'{folder / CONFIG_FILE}' is not valid ({error!r}). Choose another run folder."
        ) from error
    history = read_history(folder)
    return Run(folder, folder.name, config, classes, spec, preprocessing, history, stamp)


def get_run_stamp(folder: Path) -> tuple:
    """Return modification time and size of each file that the page shows, or () if missing."""
    stamps = []
    results = EVALUATION_FILE, REFERENCE, FAITHFULNESS_FILE, PROBES_FILE
    for name in (CONFIG_FILE, HISTORY_FILE, WEIGHTS_FILE, *results):
        try:
            status = (folder / name).stat()
            stamps.append((status.st_mtime_ns, status.st_size))
        except OSError:
            stamps.append(())
    return tuple(stamps)


def find_runs(
    *roots: Path | str, read: Callable[[Path], Run] = read_run
) -> tuple[list[Run], list[str]]:
    """Return all runs in `roots`, sorted by name, and an error message per damaged run folder.

    Pretraining runs are left out. If two runs have the same name, the root folder is appended to
    the name of the run in the later root.
    """
    runs, problems = [], []
    for root in map(Path, roots):
        for folder in _list_run_folders(root, problems):
            try:
                runs.append(read(folder))
            except PretrainingError:
                continue
            except (RunError, OSError) as error:
                problems.append(str(error))
    return sorted(disambiguate_names(runs), key=lambda run: run.name), problems


def disambiguate_names(runs: Iterable[Run]) -> list[Run]:
    """Make names unique: append `place` to the name of a later run and, if needed, a number."""
    named = {}
    for run in runs:
        name, number = run.name, 1
        while name in named:
            count = f", {number}" if number > 1 else ""
            name, number = f"{run.name} ({run.place}{count})", number + 1
        named[name] = run if name == run.name else replace(run, name=name)
    return list(named.values())


def number_runs(runs: Iterable[Run]) -> dict[str, int]:
    """Return a number for each run name, which determines the colour of the run.

    Runs are numbered by start time, so a new run does not change the other numbers. Runs with only
    results are numbered separately from all other runs.
    """
    found = sorted(runs, key=lambda run: (str(run.config.get("started", "~")), run.name))
    models = [run.name for run in found if not run.is_results_only]
    others = [run.name for run in found if run.is_results_only]
    return {name: number for names in (models, others) for number, name in enumerate(names)}


def _list_run_folders(root: Path, problems: list[str]) -> list[Path]:
    if not root.is_dir():
        return []
    try:
        folders = [entry for entry in root.iterdir() if entry.is_dir()]
    except OSError as error:
        problems.append(f"'{root}' cannot be read: {error.strerror}. Check its permissions.")
        return []
    return sorted(
        folder
        for folder in folders
        if not folder.name.startswith(".")
        # A job that has not started yet has no config.
        and ((folder / CONFIG_FILE).exists() or not (folder / JOB_FILE).exists())
    )
