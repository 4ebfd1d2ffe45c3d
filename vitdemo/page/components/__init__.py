"""Components that the browser draws, each with the files NAME.py, .css and .js.

Python sends the value as JSON. The script reads it with `received(props)` and draws it. gradio
evaluates its templates and styles as JavaScript template literals, so it would execute a value that
contains `${...}`. Therefore, templates and styles contain no values, and the scripts insert names
and numbers as text. The other scripts in this folder are shared by several views.
"""

import base64
import hashlib
import io
import itertools
import math
import mimetypes
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import gradio as gr
import numpy as np
import orjson
import torch
from gradio.components import Component
from gradio.data_classes import FileData
from gradio.processing_utils import check_all_files_in_cache
from PIL import Image

from vitdemo.page.components.matrix_file import pack_matrices

COMPONENTS_FOLDER = Path(__file__).parent
# Maximum total size of served files. Each image of a user adds files of 5 MB, which gradio's cache
# deletes only after an hour or two.
MAX_CACHE_BYTES = 2 * 2**30
MIN_FILE_AGE_SECONDS = 300  # younger files are never deleted, since browsers may still fetch them
CACHE_CHECK_INTERVAL = 64  # number of written files between two checks of the total size
CACHE_FULL_MESSAGE = (
    "The server cannot save this result. Free disk space on the server and try again."
)
# Smaller files are part of the answer, because each further request costs more time (see
# benchmarks/log/2026-11-29-channel.md).
MAX_INLINE_BYTES = 2**15
_file_counter = itertools.count(1)  # number of written files
JS_MOUNT = (
    'vitdemo.load("components/NAME.js").then('
    "({ mount }) => mount({ element, props, trigger, watch }));"
)


@dataclass(frozen=True, eq=False)
class ImageFile:
    """Image of a payload, (height, width, 3) uint8, which the browser receives as a file.

    The file is a PNG, or a small JPEG if the image need not be `exact`.
    """

    pixels: np.ndarray
    exact: bool = True


@dataclass(frozen=True, eq=False)
class CachedFile:
    """File of a payload; `make_content` is called if the cache has no file `name`.

    The content of a name must not change. `size` is the number of bytes, if it is known.
    """

    name: str
    make_content: Callable[[], bytes]
    size: float = math.inf


@dataclass(frozen=True, eq=False)
class NumbersFile:
    """Array of a payload with 1 to 4 dimensions, which the browser receives as a file.

    The file has the format of `matrix_file`, with float16 values, or float32 if `exact`.
    """

    values: np.ndarray
    exact: bool = False


class NamedFile(NamedTuple):
    """File of a payload in a `folder` of the cache. The content of a name never changes.

    `size` is an upper bound of the number of bytes.
    """

    folder: str
    name: str
    make_content: Callable[[], bytes]
    size: float

    @property
    def media_type(self) -> str:
        return mimetypes.guess_type(self.name)[0] or "application/octet-stream"


class View(gr.HTML):
    """Base class of all components that a script draws from a payload, or leaves empty for None.

    The style and script are in the folder of this module, with the name of the class's module.
    """

    def __init__(self, value=None, **options):
        own = {
            "html_template": "<div>",
            "css_template": self.read_part("css"),
            "js_on_load": JS_MOUNT.replace("NAME", self.part("js").stem),
            "apply_default_css": False,
            "padding": False,
        }
        super().__init__(value, **own | options)

    @classmethod
    def part(cls, ending: str) -> Path:
        """Return the path of the file next to the module of the class."""
        return COMPONENTS_FOLDER / f"{cls.__module__.rpartition('.')[2]}.{ending}"

    @classmethod
    def read_part(cls, ending: str) -> str:
        file = cls.part(ending)
        return file.read_text(encoding="utf-8") if file.exists() else ""

    def preprocess(self, payload):
        """Return None, since handlers read the user's choices from the event."""

    def postprocess(self, value):
        return None if value is None else serialise_payload(value, partial(serve_file, self))


def serialise_payload(value, serve: Callable[[NamedFile], dict]) -> dict:
    """Return `value` as a JSON text and a list of files: `{"text": str, "files": [file, ...]}`.

    Each dataclass in `value` becomes the file that `serve` returns, or {"url": data URL} if it is
    small. The text refers to a file as `{"file#": index in the list}`. At each event, gradio's
    frontend copies the values of all components, number by number. A text is faster to copy than
    the thousands of numbers in a table.
    """
    files: list[dict] = []

    def place(value) -> dict:
        file = name_file(value)
        if file.size <= MAX_INLINE_BYTES:
            return {"url": make_data_url(file)}
        files.append(serve(file))
        return {"file#": len(files) - 1}

    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_PASSTHROUGH_DATACLASS
    return {"text": orjson.dumps(value, place, options).decode(), "files": files}


def make_data_url(file: NamedFile) -> str:
    return f"data:{file.media_type};base64,{base64.b64encode(file.make_content()).decode()}"


def name_file(file: object) -> NamedFile:
    """Return folder, name, content and size of a payload's file.

    Raises `TypeError` for other objects.
    """
    if isinstance(file, CachedFile):
        return NamedFile("files", file.name, file.make_content, file.size)
    if isinstance(file, ImageFile):
        pixels = np.ascontiguousarray(file.pixels)
        key = repr(pixels.shape).encode() + pixels.tobytes()
        name = hash_name(key, ".png" if file.exact else ".jpg")
        return NamedFile("pictures", name, lambda: encode_image(pixels, file.exact), pixels.nbytes)
    if not isinstance(file, NumbersFile):
        raise TypeError
    numbers = torch.from_numpy(file.values)
    content = pack_matrices(numbers[(None,) * (4 - numbers.ndim)], exact=file.exact)
    return NamedFile("numbers", hash_name(content, ".bin"), lambda: content, len(content))


def hash_name(content: bytes, suffix: str = "") -> str:
    """Return a file name from the hash of `content`, so different contents have different names."""
    return hashlib.blake2b(content, digest_size=12).hexdigest() + suffix


def serve_file(component: Component, file: NamedFile) -> dict:
    """Serve a file that the browser can fetch.

    The file is in gradio's cache, which deletes old files. If there are many files, `prune_cache`
    deletes the oldest files earlier. An existing file is reused. Raises `gr.Error` if the file
    cannot be written.
    """
    path = Path(component.GRADIO_CACHE) / file.folder / file.name
    try:
        os.utime(path)  # the cache deletes files by their modification time
    except FileNotFoundError:
        try:
            _write_atomically(path, file.make_content())
            if next(_file_counter) % CACHE_CHECK_INTERVAL == 0:
                prune_cache(path.parent)
        except OSError as error:
            raise gr.Error(f"{CACHE_FULL_MESSAGE} ({error.strerror})") from error
    return FileData(path=str(path), orig_name=file.name).model_dump()


def prune_cache(folder: Path) -> None:
    """Delete the oldest files of `folder` until the total size is at most `MAX_CACHE_BYTES`.

    Subfolders, and files that cannot be deleted, remain.
    """
    found = []
    for entry in os.scandir(folder):
        with suppress(FileNotFoundError):  # gradio may have deleted the file
            if entry.is_file(follow_symlinks=False):
                state = entry.stat()
                found.append((state.st_mtime, state.st_size, entry.path))
    too_many = sum(size for _, size, _ in found) - MAX_CACHE_BYTES
    for changed, size, path in sorted(found) if too_many > 0 else ():
        if too_many <= 0 or time.time() - changed < MIN_FILE_AGE_SECONDS:
            return
        with suppress(OSError):
            os.unlink(path)
        too_many -= size


def _write_atomically(path: Path, content: bytes) -> None:
    """Write `content` completely or not at all. Raises `OSError` if the disk is full."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        temporary = file.name
    try:
        Path(temporary).write_bytes(content)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise


def encode_image(picture: np.ndarray, exact: bool) -> bytes:
    """Encode an image (height, width, 3) uint8 as PNG, or as a small JPEG if not `exact`."""
    buffer = io.BytesIO()
    options = {"format": "PNG", "compress_level": 1} if exact else {"format": "JPEG", "quality": 85}
    Image.fromarray(picture).save(buffer, **options)
    return buffer.getvalue()


def event_payload(event: gr.EventData) -> dict:
    """Return the untrusted payload of a browser event, or {} if it is not a dict."""
    return event._data if isinstance(event._data, dict) else {}


def are_uploads(paths: Sequence[str]) -> bool:
    """Return whether all files in `paths` were uploaded to this page and still exist."""
    try:
        check_all_files_in_cache([{"path": path} for path in paths])
    except gr.Error:
        return False
    return True
