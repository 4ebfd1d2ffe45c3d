"""Folders as zip files for the browser."""

import secrets
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from vitdemo.page.bridge import CachedFile


def pack_folder(name: str, write: Callable[[Path], object]) -> dict:
    """Return the folder that `write(folder)` writes as a zip file, {"file", "name"}."""

    def pack() -> bytes:
        with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory() as packed:
            write(Path(place) / name)
            return Path(shutil.make_archive(str(Path(packed) / name), "zip", place)).read_bytes()

    # The random folder keeps the address secret, and the browser saves the file under its own name.
    file = CachedFile(f"{secrets.token_hex(12)}/{name}.zip", pack)
    return {"file": file, "name": f"{name}.zip"}
