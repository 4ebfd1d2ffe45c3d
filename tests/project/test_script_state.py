"""Scripts of features keep no variables in their modules.

The choices of a user are state keys, and other values are variables of a mounted view. Only the
lessons have variables of modules, because the page has one lesson panel, outside the tabs.
"""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "vitdemo" / "page"
FEATURES = ("custom_classes", "explore", "results", "training")


def test_modules_of_features_have_no_variables():
    files = [file for feature in FEATURES for file in sorted((PAGE / feature).rglob("*.js"))]
    assert len(files) > 30
    found = {
        str(file.relative_to(PAGE)): re.findall(r"^let .*", file.read_text("utf-8"), re.MULTILINE)
        for file in files
    }
    assert not {name: variables for name, variables in found.items() if variables}
