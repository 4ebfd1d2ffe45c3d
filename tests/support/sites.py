"""A small exported site."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.loops import call_in_loop
from vitdemo.explain import faithfulness
from vitdemo.page import state_keys as keys
from vitdemo.site import states
from vitdemo.site.export import export_single_file, export_site
from vitdemo.training.recipes import RECIPES


def export_small_site(folder: Path, runs: Path) -> None:
    """Export a site of `runs`, with two recipes and few options of the other views."""
    with record_few_states():
        call_in_loop(lambda: export_site(folder, [runs], report=ignore_progress))


def export_small_file(file: Path, name: str, runs: Path) -> None:
    """Export the site of the run `name` as one file, with the states of `export_small_site`."""
    with record_few_states():
        call_in_loop(lambda: export_single_file(file, name, [runs], report=ignore_progress))


def ignore_progress(view: str, done: int, total: int) -> None:
    """Ignore the progress of an export."""


@contextmanager
def record_few_states() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(states, "EXPLAINED_CLASSES", 1)
        patch.setattr(faithfulness, "CURVE_STEPS", 2)
        patch.setitem(states.OPTION_VALUES, keys.RECIPE, [*RECIPES][:2])
        for key in (keys.FUSION, keys.RESIDUAL, keys.WANTS_NORMS):
            patch.setitem(states.OPTION_VALUES, key, (key.start,))
        yield
