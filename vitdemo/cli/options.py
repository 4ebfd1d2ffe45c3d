"""Tables of options, which both programs share."""

import argparse
from collections.abc import Mapping

from vitdemo.paths import expand_path

FLAG = {"action": "store_true"}
FILE, FOLDER = ({"type": expand_path, "metavar": name} for name in ("FILE", "DIR"))
REPEATABLE = {"action": "append", "default": []}


def add_options(
    parser: argparse.ArgumentParser, options: Mapping[str, tuple[str, Mapping[str, object]]]
) -> None:
    """Add `options`: name, or names with a space in between -> help text, other arguments."""
    for names, (text, settings) in options.items():
        parser.add_argument(*names.split(), help=text, **settings)
