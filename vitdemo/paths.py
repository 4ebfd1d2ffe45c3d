"""Expansion of "~" and of patterns in users' paths, which shells on Windows do not expand."""

import glob
import os
from collections.abc import Iterable
from pathlib import Path


def expand_path(text: str | os.PathLike) -> Path:
    """Return the path in `text`; a pattern must match exactly one path."""
    found = expand_pattern(text)
    return found[0] if len(found) == 1 else Path(text)


def expand_pattern(text: str | os.PathLike) -> list[Path]:
    """Return the sorted paths that match `text`, or `text` itself if nothing matches.

    An existing path is not expanded, because a shell may have expanded it before.
    """
    path = Path(text)
    if os.path.lexists(path):
        return [path]
    try:
        path = path.expanduser()
    except RuntimeError:  # an unknown user
        return [path]
    if os.path.lexists(path) or not glob.has_magic(str(path)):
        return [path]
    return [Path(each) for each in sorted(glob.glob(str(path)))] or [path]


def expand_patterns(texts: Iterable[str | os.PathLike]) -> list[Path]:
    """Return the paths that match any of `texts`, in the order of `texts`."""
    return [path for text in texts for path in expand_pattern(text)]
