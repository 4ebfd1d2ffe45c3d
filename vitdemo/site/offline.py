"""Files with which a browser stores a static site, so that it also works without a network.

    manifest.json        web app manifest, with which a browser installs the site as an app
    icon-SIZE.png        icons of the app
    service-worker.js    answers requests from the stored files: see `service_worker.js`
    offline.json         {"version": str, "shell": number of files that are stored first,
                          "files": [[URL, bytes, first characters of the SHA-256], ...]}

The version is a hash of all files. The files are in the order in which they are stored: the
document and the modules (the shell), the runtime, the results of the first model, and all other
results. URLs are relative to the document.
"""

import hashlib
import io
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from PIL import Image, ImageOps

from vitdemo.installation import included_folder
from vitdemo.site import document
from vitdemo.site.graphs import FOLDER, INPUTS

ICON_SIZES = (192, 512)  # pixels; browsers need both for the installation
HASH_LENGTH = 20  # hexadecimal digits
DOCUMENT = "./"
WORKER_SOURCE, LIST_NAME, PLACEHOLDER = "service_worker.js", "offline.json", "VERSION"
MANIFEST_LINK = '<link rel="manifest" href="manifest.json">\n<link rel="icon" href="icon-192.png">'
DESCRIPTION = "Explore how Vision Transformers learn and what they attend to."
Write = Callable[[str, str, bytes], str]  # folder, name, content -> name


def write_app(write: Write) -> None:
    """Write the manifest and the icons."""
    icons = []
    with Image.open(included_folder("photos") / "cat.jpg") as photo:
        for size in ICON_SIZES:
            buffer = io.BytesIO()
            ImageOps.fit(photo.convert("RGB"), (size, size)).save(buffer, "PNG")
            name = write(".", f"icon-{size}.png", buffer.getvalue())
            icons.append({"src": name, "sizes": f"{size}x{size}", "type": "image/png"})
    manifest = {
        "name": document.TITLE,
        "short_name": document.TITLE,
        "description": DESCRIPTION,
        "start_url": DOCUMENT,
        "scope": DOCUMENT,
        "display": "standalone",
        "background_color": "#ffffff",
        "theme_color": "#ffffff",
        "icons": icons,
    }
    write(".", "manifest.json", json.dumps(manifest, indent=2).encode())


def hash_site(folder: Path, others: Iterable[str] = ()) -> str:
    """Return the version of the files in `folder` and of the texts `others`."""
    found = [[name, hash_file(folder / name)] for name in list_names(folder)]
    return hashlib.sha256(json.dumps([found, [*others]]).encode()).hexdigest()[:HASH_LENGTH]


def write_service_worker(folder: Path, write: Write, version: str, model: str) -> None:
    """Write the service worker and the list of the files of a complete site.

    `model` is the first model.
    """
    names = list_names(folder)
    first = find_first(folder, {name for name in names if is_index(name)}, model)
    names.sort(key=lambda name: find_group(name, first))
    shell = sum(find_group(name, first) == 0 for name in names)
    files = [
        [get_url(name, version), (folder / name).stat().st_size, hash_file(folder / name)]
        for name in names
    ]
    content = {"version": version, "shell": shell, "files": files}
    write(".", LIST_NAME, json.dumps(content, separators=(",", ":")).encode())
    script = (document.FOLDER / WORKER_SOURCE).read_text("utf-8").replace(PLACEHOLDER, version, 1)
    write(".", "service-worker.js", script.encode())


def list_names(folder: Path) -> list[str]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return sorted(file.relative_to(folder).as_posix() for file in files)


def hash_file(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:HASH_LENGTH]


def is_index(name: str) -> bool:
    """Return whether a file has the same name in each version of a site: see `files.js`."""
    return name.endswith(".json") and name.rpartition("/")[0] in ("data", "data/graphs")


def get_url(name: str, version: str) -> str:
    if name == "index.html":
        return DOCUMENT
    return f"{name}?v={version}" if is_index(name) else name


def find_group(name: str, first: Collection[str]) -> int:
    """Return the position of a file's group in the order of the module's docstring."""
    if not name.startswith("data/") or is_index(name):
        return 1 if "/site/vendor/" in name else 0
    return 2 if name in first else 3


def find_first(folder: Path, indexes: Iterable[str], model: str) -> set[str]:
    """Return the files that contain results of `model`, or results that no other model changes."""
    answers, files = set(), set()
    for name in indexes:
        if name == INPUTS:
            continue
        content = json.loads((folder / name).read_bytes())
        if name.startswith(f"{FOLDER}/"):
            graphs = [each for each in iter_graphs(content) if each["run"] == model]
            names = [each for graph in graphs for each in (graph["file"], *graph["weights"])]
            files |= {f"{FOLDER}/{each}" for each in names}
        else:
            used = [
                each
                for state, each in content.items()
                if state == "*" or json.dumps(model) in state
            ]
            answers |= {f"data/answers/{each}" for each in used or content.values()}
    for name in answers:
        files |= {each["url"] for each in json.loads((folder / name).read_bytes())["files"]}
    return answers | files


def iter_graphs(value: object) -> Iterator[dict]:
    """Yield all entries of graphs (see `graphs.py`) in parsed JSON."""
    if isinstance(value, dict) and {"run", "file", "weights"} <= value.keys():
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from iter_graphs(each)
