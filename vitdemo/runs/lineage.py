"""Runs that a run started from."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from vitdemo.errors import RunError
from vitdemo.runs.folders import read_any_run
from vitdemo.runs.run import Run

MAX_ORIGINS = 8  # maximum number of earlier runs that `iter_origins` yields
TRAINING_OPTIONS = ("drop_rate", "drop_path_rate", "init")  # options without effect on predictions


def find_pretraining(run: Run) -> Run | None:
    """Return the pretraining run that `run` started from, or None if `iter_origins` finds none."""
    return next((origin for origin in iter_origins(run) if origin.is_pretraining), None)


def iter_origins(run: Run) -> Iterator[Run]:
    """Yield the runs that `run` started from, the latest first.

    Only runs in the same parent folder as `run` are found. A newer run with the same name as an
    origin is not used.
    """
    visited = {run.path}
    for _ in range(MAX_ORIGINS):
        origin = run.origin
        if not (name := origin.get("run")):
            return
        try:
            run = read_any_run(run.path.parent / Path(str(name)).name)
        except (RunError, OSError, ValueError):  # the origin is missing or not readable
            return
        if run.path in visited or run.config.get("started") != origin.get("started"):
            return
        visited.add(run.path)
        yield run


def get_lineage(run: Run) -> list[tuple[int, Run]]:
    """Return `run` and the supervised runs of the same model that it continues, first to last.

    Each entry is (number of epochs in earlier runs, run). The history of an earlier run ends at the
    epoch from which the next run continues. Only runs in the same parent folder as `run` are found.
    """
    lineage, counts = [run], run.epochs_before
    for origin, epochs in zip(iter_origins(run), counts, strict=False):
        if origin.is_pretraining or _model_identity(origin) != _model_identity(run):
            break
        history = [record for record in origin.history if record["epoch"] <= epochs]
        lineage.append(replace(origin, history=history))
    counts = counts[: len(lineage) - 1]  # epochs of each earlier run, the latest first
    return [(sum(counts[i:]), member) for i, member in enumerate(lineage)][::-1]


def _model_identity(run: Run) -> tuple:
    """Return the model settings and classes, without options that affect only training."""
    options = {k: v for k, v in run.spec.options.items() if k not in TRAINING_OPTIONS}
    return replace(run.spec, options=options), run.classes
