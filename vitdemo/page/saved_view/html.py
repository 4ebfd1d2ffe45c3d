"""Write the attention maps and predictions of one image as one HTML file without a server.

The file contains the scripts of the views, their style sheets, and all data. An import map contains
the scripts, so no build step is needed. `main.js` answers the requests of `store.js` from the saved
data, so the maps respond to pointer and keyboard as on the page.

    {"views": {"attention": data, "predictions": data}, "models": ..., "model": ..., "image": ...,
     "state": values of the view state, "files": [{"type": MIME type, "content": str}, ...]}

A file in the data is {"file#": index in "files"}; its content is compressed with gzip and encoded
as base64.
"""

import base64
import functools
import gzip
import html
import json
import posixpath
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from string import Template

from PIL.Image import Image

from vitdemo.context import AppContext
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import describe_depth, load_square
from vitdemo.page.components import NamedFile, serialise_payload
from vitdemo.page.explore import attention_maps, predictions
from vitdemo.page.feature import Report
from vitdemo.page.image_sources import TRUE_CLASS_KEY, describe_image
from vitdemo.page.modules import LANGUAGE, MODULES
from vitdemo.page.theme import build_style
from vitdemo.page.view_state import ViewState, get_needs
from vitdemo.runs import Run

TASK = "saved_view"
TITLE = "{run}: attention maps"
FRAME_TITLE = "Attention maps"
ABOUT = "Saved with vitdemo. Point at a patch, or click a head. This file needs no network."
PROGRESS = "Writing the file"
FILE_NAME = "vitdemo-{run}-attention"
ENTRY = "saved_view/main.js"
PREFIX = "vitdemo/"  # prefix of module names in the import map
# State keys that the saved page starts with. The settings of rollout need no server, because the
# saved rollout was computed with these settings.
SAVED_KEYS = (
    keys.MAP_SOURCE,
    keys.HEAD,
    keys.TOKEN,
    keys.DIRECTION,
    keys.HEAD_ORDER,
    keys.RANKS_ALL_LAYERS,
    keys.SHARES_SCALE,
    keys.COLOUR_SCALE,
    keys.VIEW_MODE,
    keys.OPACITY,
    *attention_maps.ROLLOUT_SETTINGS,
)
IMPORT = re.compile(r'^((?:import|export)(?: [^;"]* from)? )"(\.[^"]+)";', re.MULTILINE)


def write_saved_view(context: AppContext, state: ViewState, report: Report) -> dict:
    """Write the view state's attention maps as an HTML file. A task of the bridge."""
    report(0, 0, PROGRESS)
    run, image = context.find_run(state.model), load_square(context, state.image)
    text = build_saved_view(context, run, image, state)
    name = re.sub(r"[^A-Za-z0-9]+", "-", FILE_NAME.format(run=run.name)).strip("-")
    return {"name": f"{name}.html", "text": text}


def build_saved_view(context: AppContext, run: Run, image: Image, state: ViewState) -> str:
    """Return the HTML file of an RGB image and `run`, with the options of `state`."""
    runs = [run] if run.classes else []
    label = image.info.get(TRUE_CLASS_KEY)
    answers = predictions.to_payload(*context.predict_all(image, runs), label)
    values = {
        "views": {
            attention_maps.VIEW: attention_maps.describe_attention(context, run, image, state),
            predictions.VIEW: answers,
        },
        "models": {"stamp": "saved", "groups": [["", [run.name]]], "others": [], "missing": []},
        "model": describe_depth(context, {"model": run.name}),
        "image": describe_image("saved"),
        "needs": {
            view.VIEW: [key.name for key in get_needs(view.payload).watched]
            for view in (attention_maps, predictions)
        },
        "state": {"model": run.name, **choose_options(state)},
    }
    return fill_template(
        "page.html",
        language=LANGUAGE,
        title=html.escape(TITLE.format(run=run.name)),
        about=html.escape(ABOUT),
        style=build_style(),
        imports=build_own_import_map(),
        data=serialise(values),
        entry=f"{PREFIX}{ENTRY}",
    )


def build_frame(page: str, height: int) -> str:
    """Return the HTML of a frame of `height` pixels that contains `page`, for a notebook."""
    return fill_template("frame.html", page=html.escape(page), title=FRAME_TITLE, height=height)


def fill_template(name: str, **values: object) -> str:
    return Template((Path(__file__).parent / name).read_text("utf-8")).substitute(values)


def choose_options(state: ViewState) -> dict:
    """Return the values of `SAVED_KEYS` in the view state, and the layer if one is chosen."""
    chosen = [keys.LAYER] if state[keys.LAYER] else []
    return state.list_values([*SAVED_KEYS, *chosen])


def serialise(values: dict) -> str:
    """Return the data as JSON that is safe in a `<script>` element."""

    def embed(file: NamedFile) -> dict:
        packed = gzip.compress(file.make_content(), mtime=0)
        return {"type": file.media_type, "content": base64.b64encode(packed).decode()}

    saved = serialise_payload(values, embed)
    text = json.dumps({**json.loads(saved["text"]), "files": saved["files"]})
    return text.replace("<", "\\u003c")


def list_modules(entry: str) -> list[str]:
    """Return the paths of `entry` and of all modules that it imports."""
    found, waiting = [], [entry]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.append(name)
            waiting += [
                resolve_import(name, path) for _, path in IMPORT.findall(MODULES[name].decode())
            ]
    return found


def resolve_import(importer: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(importer), path))


@functools.cache
def build_own_import_map() -> str:
    return build_import_map({name: MODULES[name] for name in list_modules(ENTRY)})


def build_import_map(modules: Mapping[str, bytes]) -> str:
    """Return the import map that contains `modules`, given by their paths."""
    imports = {}
    for name, content in modules.items():
        # A module from a data URL has no folder, so its imports need names instead of paths.
        source = replace_imports(
            content, lambda path, name=name: PREFIX + resolve_import(name, path)
        )
        imports[f"{PREFIX}{name}"] = encode_module(source)
    return json.dumps({"imports": imports})


def replace_imports(module: bytes, replace: Callable[[str], str]) -> bytes:
    """Return a module whose imports of the path `path` are imports of `replace(path)`."""
    text = IMPORT.sub(lambda found: f'{found[1]}"{replace(found[2])}";', module.decode())
    return text.encode()


def encode_module(module: bytes) -> str:
    """Return the data URL of a module."""
    return f"data:text/javascript;base64,{base64.b64encode(module).decode()}"
