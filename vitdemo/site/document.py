"""The HTML document of views without gradio, and the files that it loads.

The document has the style and the modules of the page. The entry module `main.js` mounts the views,
connects them to a server (`server.js`), and starts with the state of the URL.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from string import Template
from xml.etree import ElementTree

from vitdemo.page import modules
from vitdemo.page.components import COMPONENTS_FOLDER
from vitdemo.page.modules import LANGUAGE
from vitdemo.page.saved_view.html import PREFIX
from vitdemo.page.theme import build_style

FOLDER = Path(__file__).parent
COMPONENTS = {  # selector of a component of Python -> its style sheet
    "#header": "header",
    "#offers": "offers",
    "[data-control=menu]": "run_choice",
    "[data-control=runs]": "run_list",
}
TITLE = "vitdemo"
NO_ICON = '<link rel="icon" href="data:,">'


def build_site_style() -> str:
    """Return the style of the page, of its components, and of the layout."""
    sheets = {
        selector: (COMPONENTS_FOLDER / f"{name}.css").read_text("utf-8")
        for selector, name in COMPONENTS.items()
    }
    scoped = [f"{selector} {{ {sheet} }}" for selector, sheet in sheets.items()]
    return "\n".join([build_style(), *scoped, (FOLDER / "site.css").read_text("utf-8")])


# Layout of a document with views only.
VIEWS_ONLY = ElementTree.tostring(ElementTree.Element("main", id="sections"), "unicode", "html")
FILES = {  # path -> content; modules import each other by these paths, as in the package
    **{f"page/{name}": content for name, content in modules.MODULES.items()},
    **{f"site/{file.name}": file.read_bytes() for file in sorted(FOLDER.glob("*.js"))},
    "style.css": build_site_style().encode(),
}
MODULES = {path: content for path, content in FILES.items() if path.endswith(".js")}
VENDOR = FOLDER / "vendor"  # ONNX Runtime Web, which runs graphs
VERSION = hashlib.blake2b(repr(FILES).encode(), digest_size=8).hexdigest()


def read_runtime() -> dict[str, bytes]:
    """Return the files of ONNX Runtime Web by path, like `FILES`."""
    return {f"site/vendor/{file.name}": file.read_bytes() for file in sorted(VENDOR.iterdir())}


def build_document(
    settings: Mapping[str, object],
    layout: str = VIEWS_ONLY,
    files_url: str = "./files",
    head: str = "",
) -> str:
    """Return an HTML document with views and controls of the page.

    `settings` are the settings that `main.js` reads. `layout` is the HTML of `layout.build_layout`,
    in which the views and controls are mounted; by default, they follow each other. `files_url` is
    the URL of `FILES`, which begins with "/" or ".". `head` contains further elements of the head.
    """
    head = f'{head or NO_ICON}\n<link rel="stylesheet" href="{files_url}/style.css">'
    imports = json.dumps({"imports": {PREFIX: f"{files_url}/"}})
    return fill_document(settings, layout, head, imports)


def fill_document(
    settings: Mapping[str, object], layout: str, head: str, imports: str, contents: str = ""
) -> str:
    """Return an HTML document; `imports` is the import map, and `contents` ends the body."""
    template = Template((FOLDER / "page.html").read_text("utf-8"))
    return template.substitute(
        language=LANGUAGE,
        title=TITLE,
        head=head,
        imports=imports,
        layout=layout,
        kind="" if layout == VIEWS_ONLY else "vd-site",
        settings=json.dumps(settings).replace("<", "\\u003c"),
        contents=contents,
    )
