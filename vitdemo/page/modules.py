"""The page's scripts: ES modules, which the server sends from the package.

`main.js` is the entry module. Python writes two more modules. `generated.js` contains the state
keys, the colour maps, and the texts that Python also reads. `views.js` imports the `view.js` of
each feature. The URL of a module contains a hash of all modules, so that browsers can cache the
modules permanently. The URL is relative to the page, which may have a path prefix behind a proxy.

The only global object of the page is `vitdemo`. The exports of `main.js` become its properties as
soon as they are loaded. The promise `vitdemo.loaded` resolves to `vitdemo`, and then
`vitdemo.load("components/header.js")` imports a further module for code in Python.
"""

import base64
import hashlib
import json
from pathlib import Path

from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from vitdemo.data import MISSING_DATASET
from vitdemo.data.image_files import MAX_FILE_BYTES
from vitdemo.figures import DIVERGING_COLOURMAP, SEQUENTIAL_COLOURMAP, colour_table
from vitdemo.page.gradio_patches import EndedSessions, HeadContent, PageCompression
from vitdemo.page.results.models import SAME_MODEL
from vitdemo.page.state_keys import STATE_KEYS
from vitdemo.page.theme import PRINT_STYLESHEET

FOLDER = Path(__file__).parent
LANGUAGE = "en"  # of all texts
# Scripts of the page's head, which run before gradio's client sends its first request.
CLASSIC_SCRIPTS = [FOLDER / "start.js", FOLDER / "stream.js"]
# Scripts that run before gradio's own modules.
FIRST_SCRIPTS = [FOLDER / "idle.js", FOLDER / "reconnect.js"]
NOT_LOADED_MESSAGE = "The scripts of this page could not be loaded. Reload the page."
CACHE_HEADERS = {"Cache-Control": "public, max-age=31536000, immutable"}


def encode_colour_map(name: str) -> str:
    """Return the 256 colours of the colour map `name` as base64 of RGB bytes."""
    return base64.b64encode(colour_table(name).tobytes()).decode()


def write_generated_module() -> str:
    maps = {"sequential": SEQUENTIAL_COLOURMAP, "diverging": DIVERGING_COLOURMAP}
    values = {
        "LANGUAGE": LANGUAGE,
        "STATE_KEYS": {name: key.describe() for name, key in STATE_KEYS.items()},
        "MAX_FILE_BYTES": MAX_FILE_BYTES,
        "MISSING_DATASET": MISSING_DATASET,
        "SAME_MODEL": SAME_MODEL,
        "COLOUR_MAPS": {key: encode_colour_map(name) for key, name in maps.items()},
    }
    lines = [
        f"export const {name} = {json.dumps(value, ensure_ascii=False)};\n"
        for name, value in values.items()
    ]
    return "".join(lines)


def read_modules() -> dict[str, bytes]:
    """Return the content of each module, by its path."""
    files = sorted({*FOLDER.rglob("*.js")} - {*CLASSIC_SCRIPTS, *FIRST_SCRIPTS})
    modules = {file.relative_to(FOLDER).as_posix(): file.read_bytes() for file in files}
    views = "".join(f'import "./{name}";\n' for name in modules if name.endswith("/view.js"))
    return {
        **modules,
        "generated.js": write_generated_module().encode(),
        "views.js": views.encode(),
    }


MODULES = read_modules()
VERSION = hashlib.blake2b(repr(MODULES).encode(), digest_size=8).hexdigest()
URL = f"modules/{VERSION}"  # relative to the page


def send_module(request: Request) -> Response:
    content = MODULES.get(request.path_params["name"])
    if content is None or request.path_params["version"] != VERSION:
        return Response(status_code=404)
    return Response(content, media_type="text/javascript", headers=CACHE_HEADERS)


def build_app_options() -> dict:
    """Return the argument `app_kwargs` of `Blocks.launch`: the modules' route, and compression.

    gradio changes the dict, so each page needs a separate dict.
    """
    return {
        "routes": [Route("/modules/{version}/{name:path}", send_module)],
        "middleware": [
            Middleware(EndedSessions),
            Middleware(PageCompression),
            Middleware(HeadContent, build_first_head()),
        ],
    }


def build_first_head() -> str:
    """Return head elements of the document, which the browser reads before gradio runs.

    The modules are loaded at the same time as gradio's modules. In a network with a latency of 40
    ms, the first map is then drawn after 1.97 instead of 2.42 s
    (benchmarks/log/2026-11-28-first-view.md).
    """
    preloads = [f'<link rel="modulepreload" href="./{URL}/{name}">' for name in MODULES]
    scripts = [f"<script>{file.read_text('utf-8')}</script>" for file in FIRST_SCRIPTS]
    return "".join([*scripts, *preloads])


def build_head() -> str:
    """Return the page's head: the scripts that load the modules, and the style of printed pages."""
    settings = json.dumps({"main": f"./{URL}/main.js", "message": NOT_LOADED_MESSAGE})
    scripts = [f"window.vitdemo = {settings};", *(f.read_text("utf-8") for f in CLASSIC_SCRIPTS)]
    style = f'<style media="print">{PRINT_STYLESHEET.read_text("utf-8")}</style>'
    return "".join([*(f"<script>{script}</script>" for script in scripts), style])
