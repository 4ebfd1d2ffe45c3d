"""Write a static site as one HTML file, which opens from the disk.

A page from the disk can neither fetch files nor import modules by their paths. The file therefore
contains all files of the site, as script elements of a type that browsers do not run. The id is the
file's name, and `files.js` decodes the file. An import map contains the modules. The worker has
no import map, so its imports are data URLs.
"""

import base64
import gzip
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from vitdemo.page.saved_view.html import (
    build_import_map,
    encode_module,
    replace_imports,
    resolve_import,
)
from vitdemo.runs import write_atomically
from vitdemo.site import document

WORKER = "site/worker.js"
BUNDLED = "site/vendor/ort.wasm.min.mjs"  # part of the worker
# Types that browsers need. Python's table depends on the computer.
TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".png": "image/png"}
DATA = "text/plain"  # type of script elements that browsers do not run
INCOMPLETE = document.FOLDER / "incomplete.js"
END = "end"  # id of the last element


def write_single_file(
    file: Path, folder: Path, settings: Mapping[str, object], layout: str
) -> None:
    """Write the HTML `file` of the recorded site in `folder` (see `export.record_site`)."""
    script = make_element("script", INCOMPLETE.read_text("utf-8"))
    style = make_element("style", document.build_site_style())
    modules = {path: content for path, content in document.MODULES.items() if path != WORKER}
    files = [embed_file(name, content) for name, content in list_files(folder)]
    text = document.fill_document(
        {**settings, "isSingleFile": True},
        layout,
        head="\n".join([script, document.NO_ICON, style]),
        imports=build_import_map(modules),
        contents="\n".join([*files, make_element("script", type=DATA, id=END)]),
    )
    write_atomically(file, lambda target: target.write(text.encode()))


def list_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the files of a site that `files.js` decodes."""
    modules = document.MODULES | document.read_runtime()
    yield WORKER, bundle_module(WORKER, modules.__getitem__)
    for name, content in document.read_runtime().items():
        if name != BUNDLED:
            yield name, content
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield file.relative_to(folder).as_posix(), file.read_bytes()


def bundle_module(name: str, read: Callable[[str], bytes]) -> bytes:
    """Return the module `name` with all modules that it imports, as data URLs."""
    return replace_imports(
        read(name),
        lambda path: encode_module(bundle_module(resolve_import(name, path), read)),
    )


def embed_file(name: str, content: bytes) -> str:
    """Return the script element of a file."""
    packed = content if name.endswith(".gz") else gzip.compress(content, mtime=0)
    kind = {"data-type": TYPES[suffix]} if (suffix := Path(name).suffix) in TYPES else {}
    return make_element("script", base64.b64encode(packed).decode(), type=DATA, id=name, **kind)


def make_element(tag: str, text: str = "", **attributes: str) -> str:
    """Return the HTML of an element whose text browsers do not parse as HTML."""
    element = Element(tag, attributes)
    element.text = text
    return ElementTree.tostring(element, "unicode", "html")
