"""A small exported site."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.loops import call_in_loop
from vitdemo.explain import faithfulness
from vitdemo.page import state_keys as keys
from vitdemo.site import states
from vitdemo.site.export import export_site
from vitdemo.site.single_file import write_single_file
from vitdemo.training.recipes import RECIPES


def export_small_site(folder: Path, runs: Path) -> None:
    """Export a site of `runs`, with two recipes and few options of the other views."""
    with record_few_states():
        call_in_loop(lambda: export_site(folder, [runs], report=ignore_progress))


def read_settings(site: Path) -> dict:
    """Return the settings in the document of an exported site."""
    text = (site / "index.html").read_text("utf-8")
    return json.loads(re.search(r'id="site">(.*?)</script>', text)[1])


def pack_site(site: Path, file: Path, folder: Path) -> None:
    """Write an exported site as one HTML file; its data are copied to the new folder `folder`."""
    shutil.copytree(site / "data", folder / "data")
    text = (site / "index.html").read_text("utf-8")
    layout = re.search(r'<body[^>]*>\n(.*?)\n<script type="application/json"', text, re.DOTALL)[1]
    write_single_file(file, folder, {**read_settings(site), "version": ""}, layout)


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
