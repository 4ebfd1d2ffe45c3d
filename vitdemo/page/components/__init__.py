"""What the browser draws: each component is NAME.py, and beside it NAME.html, NAME.css, NAME.js.

Python sends a small JSON value, the script draws it: what `drawn` made is `vitdemo.received(props)`
there. gradio evaluates what a template gives as a JavaScript template literal, so a value with
`${...}` in it would run: the templates hold no value at all, and the scripts write names, classes
and numbers as text. `SHARED`, in the page's head, hold what several scripts draw with; a style
without a template beside it is the page's, too.
"""

import base64
import hashlib
import io
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import gradio as gr
import numpy as np
import orjson
from gradio.components import Component
from gradio.data_classes import FileData
from gradio.processing_utils import check_all_files_in_cache
from PIL import Image
from torch import Tensor

from vitdemo.attention.packed import pack
from vitdemo.figures import DIVERGING, SEQUENTIAL, colour_table

FOLDER = Path(__file__).parent
# Bytes of what browsers have fetched: each picture leaves 5 MB, which gradio's own cache lets
# lie for an hour or two.
MOST_BYTES = 2 * 2**30
FETCHED_WITHIN = 300  # seconds: younger files stay in any case
LOOK_EVERY = 64  # files between two looks at how many bytes there are
NO_ROOM = "The server cannot keep what it is to show: whoever runs it has to make room."
_written = itertools.count(1)  # files
SHARED = (
    "shared.js",
    "matrices.js",
    "table.js",
    "pictures.js",
    "grid.js",
    "map_words.js",
    "head_rows.js",
    "lesson_tasks.js",
    "lesson_questions.js",
)


class Drawing(gr.HTML):
    """What the browser draws of a value: the base of all components.

    The class's module is NAME.py, with template, style and script beside it; `drawn` makes what
    the script takes. In place of a value a handler may return a sentence: the script then gets
    {"sentence": str}. None, and nothing is drawn.
    """

    def __init__(self, value=None, **options):
        name = type(self).__module__.rpartition(".")[2]

        def read(ending: str) -> str:
            return (FOLDER / f"{name}.{ending}").read_text(encoding="utf-8")

        own = {
            "html_template": read("html"),
            "css_template": read("css"),
            "js_on_load": read("js"),
            "apply_default_css": False,
            "padding": False,
        }
        super().__init__(value, **own | options)

    def preprocess(self, payload):
        """Nothing: what is picked or asked for comes with the event."""

    def postprocess(self, value):
        if isinstance(value, str):
            return as_text({"sentence": value}) if value else None
        return None if value is None else as_text(self.drawn(value))

    def drawn(self, value):
        """`value` as JSON with files in it, of the shape that the component's module tells."""
        return value


def as_text(value) -> dict:
    """`value` as one JSON text beside its files: `{"text": str, "files": [file, ...]}`, where a
    file stands in the text as `{"file#": its place in the list}`.

    At each event the page's front copies the values of all components that had one before, number
    by number, of which a table has thousands; a text is copied as one.
    """
    files: list[FileData] = []

    def placed(file) -> dict:
        if not isinstance(file, FileData):
            raise TypeError
        files.append(file)
        return {"file#": len(files) - 1}

    text = orjson.dumps(value, placed, orjson.OPT_SERIALIZE_NUMPY).decode()
    return {"text": text, "files": [file.model_dump() for file in files]}


def served(component: Component, folder: str, name: str, content: Callable[[], bytes]) -> FileData:
    """What `content()` gives as a file that the browser may fetch, for a component's value.

    It lies in `folder` of gradio's cache, where old files go in their time, and sooner where there
    are many (`make_room`). The same name is the same content: it is made once, however many ask.
    Raises `gr.Error` where it cannot be written.
    """
    path = Path(component.GRADIO_CACHE) / folder / name
    try:
        os.utime(path)  # the cache ages files by this
    except FileNotFoundError:
        try:
            _put(path, content())
            if next(_written) % LOOK_EVERY == 0:
                make_room(path.parent)
        except OSError as error:
            raise gr.Error(f"{NO_ROOM} ({error.strerror})") from error
    return FileData(path=str(path), orig_name=name)


def make_room(folder: Path) -> None:
    """Delete the oldest files of `folder` until it holds `MOST_BYTES` at most."""
    found = []
    for file in folder.iterdir():
        with suppress(FileNotFoundError):  # gradio deletes, too
            state = file.stat()
            found.append((state.st_mtime, state.st_size, file))
    too_many = sum(size for _, size, _ in found) - MOST_BYTES
    for changed, size, file in sorted(found):
        if too_many <= 0 or time.time() - changed < FETCHED_WITHIN:
            return
        file.unlink(missing_ok=True)
        too_many -= size


def _put(path: Path, content: bytes) -> None:
    """All of `content` or nothing. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        beside = file.name
    try:
        Path(beside).write_bytes(content)
        os.replace(beside, path)
    except OSError:
        os.unlink(beside)
        raise


def served_picture(component: Component, picture: np.ndarray, *, exact: bool = True) -> FileData:
    """A picture (height, width, 3) uint8 that the browser may fetch, see `served`: a PNG, or a
    small JPEG where it need not be `exact`."""
    pixels = np.ascontiguousarray(picture)
    key = hashlib.blake2b(repr(pixels.shape).encode() + pixels.tobytes(), digest_size=12)
    name = f"{key.hexdigest()}.{'png' if exact else 'jpg'}"
    return served(component, "pictures", name, lambda: _encoded(pixels, exact))


def _encoded(picture: np.ndarray, exact: bool) -> bytes:
    buffer = io.BytesIO()
    options = {"format": "PNG", "compress_level": 1} if exact else {"format": "JPEG", "quality": 85}
    Image.fromarray(picture).save(buffer, **options)
    return buffer.getvalue()


def served_numbers(component: Component, numbers: Tensor, *, exact: bool = False) -> FileData:
    """Numbers that the browser may fetch, see `served` and `vitdemo.attention.packed`."""
    content = pack(numbers, exact=exact)
    name = hashlib.blake2b(content, digest_size=12).hexdigest()
    return served(component, "numbers", f"{name}.bin", lambda: content)


def sent(event: gr.EventData) -> dict:
    """What a script sent with its event; as hostile as a file."""
    return event._data if isinstance(event._data, dict) else {}


def are_uploads(paths: Sequence[str]) -> bool:
    """Whether all these files were uploaded to this page, and are still here."""
    try:
        check_all_files_in_cache([{"path": path} for path in paths])
    except gr.Error:
        return False
    return True


def head_script() -> str:
    """The scripts that all components draw with, and the colours of plain and of signed maps."""
    script = "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in SHARED)
    return script.replace("SEQUENTIAL", colours(SEQUENTIAL)).replace(
        "DIVERGING", colours(DIVERGING)
    )


def colours(name: str) -> str:
    """256 colours of the map `name` as base64 of RGB bytes."""
    return base64.b64encode(colour_table(name).tobytes()).decode()
