"""Import rules of the scripts: they import only lower layers, and no script of another feature."""

import re
from graphlib import TopologicalSorter
from pathlib import PurePath

import pytest

from tests.project.test_layers import SOURCES
from vitdemo.page.components import View
from vitdemo.page.saved_view.html import IMPORT, resolve_import
from vitdemo.site.document import FILES, read_runtime

# From the lowest layer to the highest. A script belongs to the first layer that matches its path.
LAYERS = {
    "texts": r"page/(generated|markup|notices|texts|vendor/.*)\.js|site/vendor/.*",
    "store": r"page/(connection|store|store/.*)\.js",
    "components": r"page/components/.*",
    "entry modules": r"page/(main|page|views|gradio/.*|saved_view/main)\.js|site/.*",
    "features": r"page/.*",
}
ORDER = ["texts", "store", "components", "features", "entry modules"]
CONNECTIONS = ("site/server.js", "site/recorded.js")  # `site/main.js` imports one of them
ENTRIES = (
    *("page/main.js", "page/saved_view/main.js", "site/main.js", "site/worker.js"),
    "site/offline.js",  # by `site/main.js`, on a site with several files
    "site/service_worker.js",  # by `site/offline.js`, from the folder of the document
    "site/incomplete.js",  # part of the HTML of a single file
    "site/vendor/ort-wasm-simd-threaded.mjs",  # by the runtime, from a path of `worker.js`
    "site/check.js",  # by `site/main.js`, if the site has graphs
    *CONNECTIONS,
)
LOADED = re.compile(r'vitdemo\.load\("(.+?)"\)')  # by code in Python strings


def list_imports(name: str, script: str) -> list[str]:
    return [resolve_import(name, path) for _, path in IMPORT.findall(script)]


SCRIPTS = {
    name: text.decode()
    for name, text in (FILES | read_runtime()).items()
    if name.endswith((".js", ".mjs"))
}
IMPORTS = {name: list_imports(name, script) for name, script in SCRIPTS.items()}


def layer_of(name: str) -> str:
    return next(layer for layer, pattern in LAYERS.items() if re.fullmatch(pattern, name))


def find_fault(name: str, imported: str) -> str | None:
    """Return the rule that an import breaks, or None."""
    layer, other = layer_of(name), layer_of(imported)
    if ORDER.index(other) > ORDER.index(layer):
        return f"{layer} import no {other}"
    is_private = imported.startswith("page/store/")
    if is_private and not name.startswith(("page/store", "page/gradio/")):
        return "only `store.js` imports the folder `store`"
    if other != "features" or layer != "features":
        return None
    if imported.endswith("/view.js"):
        return "features import no view"
    if not PurePath(name).is_relative_to(PurePath(imported).parent):
        return "features import only scripts of their folder and of folders above it"
    return None


def list_reachable(entries: list[str]) -> set[str]:
    """Return `entries` and all scripts that they import."""
    found, waiting = set(), [*entries]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += IMPORTS[name]
    return found


def list_loaded_scripts() -> set[str]:
    """Return the scripts that code in Python strings loads."""
    named = {name for source in SOURCES.values() for name in LOADED.findall(source)}
    drawn = {f"components/{component.part('js').name}" for component in View.__subclasses__()}
    return {f"page/{name}" for name in (named - {"components/NAME.js"}) | drawn}


def test_scripts_import_only_lower_layers_and_no_other_feature():
    faults = [
        f"{name} imports {imported}: {fault}"
        for name, all_imported in IMPORTS.items()
        for imported in all_imported
        if (fault := find_fault(name, imported))
    ]
    assert faults == []


@pytest.mark.parametrize(
    ("name", "imported"),
    [
        ("page/texts.js", "page/store.js"),
        ("page/store/url.js", "page/components/shared.js"),
        ("page/components/gallery.js", "page/data/download/view.js"),
        ("page/components/gallery.js", "page/store/state.js"),
        ("page/explore/predictions/view.js", "page/explore/attention_maps/figures.js"),
        ("page/explore/predictions/view.js", "page/explore/inside/view.js"),
        ("page/explore/predictions/view.js", "page/gradio/controls.js"),
    ],
)
def test_import_violations_are_detected(name, imported):
    assert find_fault(name, imported)


def test_imports_have_no_cycle():
    """A module of a cycle would use another one before it has run."""
    TopologicalSorter(IMPORTS).prepare()


def test_each_script_is_used():
    assert list_reachable([*ENTRIES, *list_loaded_scripts()]) == set(SCRIPTS)


def test_pages_without_gradio_load_no_script_for_gradio():
    reachable = list_reachable(["page/saved_view/main.js", "site/main.js"])
    assert not [name for name in reachable if name.startswith("page/gradio/")]


def test_the_script_of_each_component_has_its_function():
    for component in View.__subclasses__():
        assert "export function mount({" in component.part("js").read_text("utf-8")
