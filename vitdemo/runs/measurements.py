"""Results that were measured with the weights of a run, such as `faithfulness.json`."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from vitdemo.runs.files import WEIGHTS_FILE, write_atomically

# Errors of functions that read a value of another form from a damaged file
DAMAGED_VALUES = (ValueError, KeyError, TypeError, AttributeError)


def write_measurements(folder: Path, name: str, content: Mapping[str, object]) -> None:
    """Write `content` to the file `name` of the run folder, with a hash of the weights."""
    text = json.dumps({"weights": hash_weights(folder), **content}, indent=1) + "\n"
    write_atomically(folder / name, lambda file: file.write(text.encode()))


def read_measurements(folder: Path, name: str) -> dict | None:
    """Return the content; None if the file is missing, damaged, or measured with other weights."""
    try:
        content = json.loads((folder / name).read_text(encoding="utf-8-sig"))
        return content if content.pop("weights") == hash_weights(folder) else None
    except (OSError, *DAMAGED_VALUES):
        return None


def hash_weights(folder: Path) -> str:
    """Return a hash of the weights in the run folder. Raises `OSError` if there are no weights."""
    return hashlib.blake2b((folder / WEIGHTS_FILE).read_bytes(), digest_size=16).hexdigest()
