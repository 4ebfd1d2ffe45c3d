"""Settings and provenance of runs as tables, one column per run."""

import itertools
from collections.abc import Mapping, Sequence

from vitdemo.documents import DocumentBlock, Text
from vitdemo.documents.table import Cell, Column, Table
from vitdemo.metrics import DASH
from vitdemo.runs import Run

MAX_RUNS_PER_TABLE = 6  # a page of paper is too narrow for more columns
DIFFERENT_NOTE = "Values of settings in which the runs differ are bold."
PROVENANCE_KEYS = (
    *("command", "started", "device", "processes", "git_commit", "started_from", "resumed"),
    *("data", "split", "packages", "classes"),
)


def settings_blocks(runs: Sequence[Run]) -> list[DocumentBlock]:
    """Return all fields of the recipes; values of fields with differences are bold.

    Notes are left out, because they describe the results of other runs.
    """
    recipes = [
        flatten_dict({k: v for k, v in run.config["recipe"].items() if k != "note"}) for run in runs
    ]
    note = [Text(DIFFERENT_NOTE, quiet=True)] if len(runs) > 1 else []
    return [*note, *split_table(runs, recipes, mark=True)]


def provenance_blocks(runs: Sequence[Run]) -> list[DocumentBlock]:
    entries = [
        flatten_dict({k: run.config[k] for k in PROVENANCE_KEYS if k in run.config}) for run in runs
    ]
    return split_table(runs, entries)


def split_table(
    runs: Sequence[Run], entries: Sequence[Mapping[str, str]], *, mark: bool = False
) -> list[Table]:
    """Return tables of the fields of runs, each with at most `MAX_RUNS_PER_TABLE` runs.

    With `mark`, the values of fields in which the runs differ are bold.
    """
    rows = {
        field: [entry.get(field, DASH) for entry in entries]
        for field in dict.fromkeys(itertools.chain.from_iterable(entries))
    }
    return [
        Table(
            ["Field", *(Column(run.name, numeric=False) for run in runs[start:end])],
            [
                [field, *(Cell(v, strong=mark and len({*values}) > 1) for v in values[start:end])]
                for field, values in rows.items()
            ],
        )
        for start in range(0, len(runs), MAX_RUNS_PER_TABLE)
        for end in [start + MAX_RUNS_PER_TABLE]
    ]


def flatten_dict(recipe: dict, prefix: str = "") -> dict[str, str]:
    """Flatten nested dicts: {"model": {"family": "vit"}} becomes {"model.family": "vit"}.

    Values become text. Dicts in a list are numbered from 1.
    """
    flat = {}
    for key, value in recipe.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            value = {str(number): item for number, item in enumerate(value, 1)}
        if isinstance(value, dict):
            flat |= flatten_dict(value, f"{prefix}{key}.")
        else:
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            flat[f"{prefix}{key}"] = text or DASH
    return flat
