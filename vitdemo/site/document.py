"""The HTML document of views without gradio, and the files that it loads.

The document has the style and the modules of the page. The entry module `main.js` mounts the views,
connects them to a server (`server.js`), and starts with the state of the URL.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from string import Template

from vitdemo.page import modules
from vitdemo.page.image_sources import list_photos
from vitdemo.page.modules import LANGUAGE
from vitdemo.page.theme import build_style

FOLDER = Path(__file__).parent
TITLE = "vitdemo"
FILES = {  # path -> content; modules import each other by these paths, as in the package
    **{f"page/{name}": content for name, content in modules.MODULES.items()},
    **{f"site/{file.name}": file.read_bytes() for file in sorted(FOLDER.glob("*.js"))},
    "style.css": build_style().encode(),
}
VERSION = hashlib.blake2b(repr(FILES).encode(), digest_size=8).hexdigest()


def build_document(
    places: Mapping[str, str | dict], description: Mapping[str, Mapping], files_url: str = "files"
) -> str:
    """Return an HTML document with views and controls of the page.

    `places` maps the id of each element to the name of its view, or to a control of
    `controls.list_controls`. `description` is the value of `Bridge.description`. `files_url` is the
    URL of `FILES`.
    """
    image = {"source": next(iter(list_photos())), "path": None, "at": 0.5}
    settings = json.dumps({"places": places, "description": description, "image": image})
    template = Template((FOLDER / "page.html").read_text("utf-8"))
    return template.substitute(
        language=LANGUAGE,
        title=TITLE,
        files=files_url,
        settings=settings.replace("<", "\\u003c"),
    )
