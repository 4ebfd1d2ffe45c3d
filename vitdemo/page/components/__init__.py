"""What the browser draws: each component is NAME.py, and beside it NAME.html, NAME.css, NAME.js.

Python sends a small JSON value, the script draws it. gradio evaluates what a template gives as a
JavaScript template literal, so a value with `${...}` in it would run: the templates hold no value
at all, and the scripts write names, classes and numbers as text. `SHARED`, in the page's head, hold
what several scripts draw with; a style without a template beside it is the page's, too.
"""

import base64
import hashlib
import io
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from gradio.components import Component
from PIL import Image

from vitdemo.figures import DIVERGING, SEQUENTIAL, colour_table

FOLDER = Path(__file__).parent
SHARED = ("shared.js", "matrices.js", "table.js", "pictures.js", "grid.js")


def drawn_by(name: str) -> dict[str, str]:
    """What `gr.HTML` takes to draw the component `name`: its template, style and script."""

    def read(ending: str) -> str:
        return (FOLDER / f"{name}.{ending}").read_text(encoding="utf-8")

    return {
        "html_template": read("html"),
        "css_template": read("css"),
        "js_on_load": read("js"),
        "apply_default_css": False,
        "padding": False,
    }


def served(component: Component, folder: str, name: str, content: Callable[[], bytes]) -> dict:
    """What `content()` gives as a file that the browser may fetch, for a component's value.

    It lies in `folder` of gradio's cache, where old files go in their time. The same name is the
    same content: it is made once, however many ask.
    """
    path = Path(component.GRADIO_CACHE) / folder / name
    try:
        os.utime(path)  # the cache ages files by this
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(content())
        os.replace(file.name, path)
    return {"path": str(path), "orig_name": name, "meta": {"_type": "gradio.FileData"}}


def served_picture(component: Component, picture: np.ndarray, *, exact: bool = True) -> dict:
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


def head_script() -> str:
    """The scripts that all components draw with, and the colours of plain and of signed maps."""
    script = "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in SHARED)
    return script.replace("SEQUENTIAL", colours(SEQUENTIAL)).replace(
        "DIVERGING", colours(DIVERGING)
    )


def colours(name: str) -> str:
    """256 colours of the map `name` as base64 of RGB bytes."""
    return base64.b64encode(colour_table(name).tobytes()).decode()
