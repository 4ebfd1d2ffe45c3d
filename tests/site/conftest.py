"""A site that several tests read."""

from pathlib import Path

import pytest

from tests.support.loops import call_in_loop
from vitdemo.explain import faithfulness
from vitdemo.page import state_keys as keys
from vitdemo.site import states
from vitdemo.site.export import export_site
from vitdemo.training.recipes import RECIPES


@pytest.fixture(scope="session")
def exported_site(shown_runs, tmp_path_factory) -> Path:
    """Export a site of `shown_runs`, with two recipes and one explained class per image."""
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(states, "EXPLAINED_CLASSES", 1)
        patch.setattr(faithfulness, "CURVE_STEPS", 2)
        patch.setitem(states.OPTION_VALUES, keys.RECIPE, [*RECIPES][:2])
        call_in_loop(lambda: export_site(folder, [shown_runs], report=lambda *arguments: None))
    return folder
