"""The house: imports point down only, and each large library has one room."""

import ast
import re
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ORDER = (
    "errors < console < data < models < training < runs < metrics < explain < figures < cache "
    "< context"
    " < analyses < custom_classes < jobs < report < lessons < page < app"
)
LAYERS = ORDER.split(" < ")
ALLOWED_IMPORTERS = {  # library: the only modules or packages that may import it
    "gradio": ("vitdemo.page", "app"),
    "captum": ("vitdemo.explain.attributions",),
    "matplotlib": ("vitdemo.figures",),
    "jinja2": ("vitdemo.report",),
}
# What a function may import from above it, where the top of its module may not. `train.py report`
# draws what trainings left: it is a reader of runs, and no training needs what it needs.
LATE_IMPORTS = {("train", "vitdemo.report.render_report")}
COMPONENTS_PACKAGE = "vitdemo.page.components"  # below the tabs
TRAIN_HEIGHT = LAYERS.index("metrics") + 0.5  # train.py stands between evaluation and what is above


def list_imports(source: str) -> set[str]:
    """Dotted names of all that `source` imports, at the top or inside a function."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            home = "." * node.level + (node.module or "")
            names |= {f"{home}.{alias.name}" for alias in node.names}
    return names


def import_name(requirement: str) -> str:
    """ "scikit-learn>=1.5,<2" -> the name that it is imported by."""
    name = re.match(r"[\w-]+", requirement)[0].replace("-", "_").lower()
    return {"pillow": "PIL", "scikit_learn": "sklearn"}.get(name, name)


def remove_functions(source: str) -> str:
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if not isinstance(node, ast.FunctionDef)]
    return ast.unparse(tree)


def layer_of(name: str) -> str:
    """ "vitdemo.models.vit" -> "models"; "app" -> "app"."""
    parts = name.split(".")
    return parts[1] if parts[0] == "vitdemo" and len(parts) > 1 else parts[0]


def layer_height(layer: str) -> float:
    return TRAIN_HEIGHT if layer == "train" else LAYERS.index(layer)


def find_import_faults(module: str, source: str) -> list[str]:
    """What is wrong with the imports of `module`, a sentence each."""
    here, found = layer_of(module), []
    late = {name for where, name in LATE_IMPORTS if where == module} - list_imports(
        remove_functions(source)
    )
    for name in sorted(list_imports(source) - late):
        library, there = name.split(".")[0], layer_of(name)
        if not library:
            found.append(f"{module} imports {name}: write it from vitdemo on")
        elif not module.startswith(ALLOWED_IMPORTERS.get(library, "")):
            found.append(f"{module} imports {library}; only {ALLOWED_IMPORTERS[library]} may")
        elif "pyplot" in name:
            found.append(f"{module} imports pyplot, which leaks figures in a server")
        elif library not in ("vitdemo", "app", "train"):
            continue
        elif (
            module.startswith(COMPONENTS_PACKAGE)
            and name.startswith("vitdemo.page.")
            and not (name.startswith((COMPONENTS_PACKAGE, "vitdemo.page.kit")))
        ):
            found.append(f"{module} imports {name}: a component knows no tab")
        elif there not in (*LAYERS, "train"):
            found.append(f"{module} imports {name}, which has no place in the house")
        elif there != here and layer_height(there) >= layer_height(here):
            found.append(f"{module} imports {name}, which is above it")
    return found


def read_sources() -> dict[str, str]:
    """Dotted name -> text, of the modules of the package, app.py and train.py."""
    files = [*(ROOT / "vitdemo").rglob("*.py"), *(ROOT / n for n in ("app.py", "train.py"))]
    named = {".".join(file.relative_to(ROOT).with_suffix("").parts): file for file in files}
    return {n.removesuffix(".__init__"): f.read_text("utf-8") for n, f in named.items()}


SOURCES = read_sources()
PACKAGE_SOURCE = SOURCES.pop("vitdemo")


def test_modules_import_only_lower_layers_and_allowed_libraries():
    assert list_imports(PACKAGE_SOURCE) == set()
    assert {layer_of(module) for module in SOURCES} == {*LAYERS, "train"}
    assert [
        fault for module, source in SOURCES.items() for fault in find_import_faults(module, source)
    ] == []


def test_strings_contain_no_html():
    """Templates and scripts have files of their own."""
    found = [
        name
        for name, source in SOURCES.items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and re.search(r"</\w+>", str(node.value))
    ]
    assert set(found) == {"vitdemo.page"}  # the tags around what its head holds


def find_import_cycle(sources: dict[str, str]) -> list[str]:
    """The modules of a circle of imports, first and last the same; [] where there is none."""
    graph = {}
    for module, source in sources.items():
        names = list_imports(source) - {late for where, late in LATE_IMPORTS if where == module}
        found = {name if name in sources else name.rsplit(".", 1)[0] for name in names}
        graph[module] = (found & set(sources)) - {module}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_imports_have_no_cycle():
    assert find_import_cycle(SOURCES) == []
    pair = {"vitdemo.a": "from vitdemo.a.b import x", "vitdemo.a.b": "from vitdemo import a"}
    assert set(find_import_cycle(pair)) == {"vitdemo.a", "vitdemo.a.b"}
    late = {"vitdemo.a": "def late():\n    from vitdemo.a.b import x"}
    assert set(find_import_cycle(pair | late)) == {"vitdemo.a", "vitdemo.a.b"}


def test_imported_libraries_are_in_the_requirements():
    """`spaces` alone is not: it is there where it is needed, in a Space on ZeroGPU."""
    lines = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    required = {import_name(line) for line in lines if line and not line.startswith("#")}
    libraries = {name.split(".")[0] for source in SOURCES.values() for name in list_imports(source)}
    ours = {"vitdemo", "app", "train", "spaces"}
    assert libraries - ours - set(sys.stdlib_module_names) <= required


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("vitdemo.data", "from vitdemo.training import Trainer"),
        ("vitdemo.data", "from vitdemo import errors, runs"),
        ("vitdemo.data", "def late():\n    import vitdemo.runs"),
        ("vitdemo.data", "from .errors import DataError"),
        ("vitdemo.data", "import train"),
        ("vitdemo.context", "import gradio as gr"),
        ("vitdemo.figures", "import matplotlib.pyplot as plt"),
        ("vitdemo.page.components.gallery", "from vitdemo.page.look.tab import Look"),
        ("vitdemo.page.look", "from vitdemo.stranger import thing"),
        ("train", "from vitdemo import attention"),
        ("train", "from vitdemo.report import render_report"),
        ("train", "def late():\n    from vitdemo import figures"),
        ("vitdemo.runs", "def late():\n    from vitdemo.report import render_report"),
    ],
)
def test_import_violations_are_detected(module, source):
    assert len(find_import_faults(module, source)) == 1
