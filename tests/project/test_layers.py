"""Import rules: modules import only lower layers, and few layers import a large library."""

import ast
import re
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ORDER = (
    "errors < installation < console < paths < options < environment < data < models < training"
    " < runs < metrics < explain < figures < documents < cache < sessions < context < test_sets"
    " < analyses < publishing < custom_classes < jobs < report < lessons < page < site < notebook"
    " < app"
)
LAYERS = ORDER.split(" < ")
ALLOWED_IMPORTERS = {  # library: the only modules or packages that may import it
    "gradio": ("vitdemo.page", "vitdemo.site.layout", "vitdemo.cli.app"),
    "captum": ("vitdemo.explain.attributions",),
    "matplotlib": ("vitdemo.figures",),
    "jinja2": ("vitdemo.documents",),
}
# These imports from a higher layer are allowed inside a function only, so that training does not
# require the libraries of `train.py report`, `push` and `export`.
LATE_IMPORTS = {
    ("vitdemo.cli.train", "vitdemo.report.render_report"),
    ("vitdemo.cli.train", "vitdemo.publishing.repository.push_run"),
    ("vitdemo.cli.train", "vitdemo.publishing.repository.write_repository"),
    ("vitdemo.cli.train", "vitdemo.publishing.onnx_file.export_onnx"),
}
COMPONENTS_PACKAGE = "vitdemo.page.components"  # its modules may not import the tabs
COMPONENTS_IMPORTS = (COMPONENTS_PACKAGE, "vitdemo.page.kit", "vitdemo.page.state_key")
TRAIN_HEIGHT = LAYERS.index("metrics") + 0.5  # train.py may import metrics and the layers below


def list_imports(source: str) -> set[str]:
    """Return the dotted names of all imports of `source`, including those inside functions."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            home = "." * node.level + (node.module or "")
            names |= {f"{home}.{alias.name}" for alias in node.names}
    return names


def import_name(requirement: str) -> str:
    """Return the import name of a requirement such as "scikit-learn>=1.5,<2"."""
    name = re.match(r"[\w-]+", requirement)[0].replace("-", "_").lower()
    return {"pillow": "PIL", "scikit_learn": "sklearn", "markdown_it_py": "markdown_it"}.get(
        name, name
    )


def list_libraries(source: str) -> set[str]:
    return {name.split(".")[0] for name in list_imports(source)}


class FunctionRemover(ast.NodeTransformer):
    """Replaces the content of functions and methods by `pass`."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.body = [ast.Pass()]
        return node


def remove_functions(source: str) -> str:
    """Return `source` without the content of functions, whose imports run later or never."""
    return ast.unparse(FunctionRemover().visit(ast.parse(source)))


def layer_of(name: str) -> str:
    """Return the layer of a module: "models" for "vitdemo.models.vit", "app" for both of its files.

    The programs `app` and `train` are layers of their own.
    """
    parts = name.removeprefix("vitdemo.cli.").split(".")
    return parts[1] if parts[0] == "vitdemo" and len(parts) > 1 else parts[0]


def layer_height(layer: str) -> float:
    return TRAIN_HEIGHT if layer == "train" else LAYERS.index(layer)


def find_import_faults(module: str, source: str) -> list[str]:
    """Return one sentence per import of `module` that breaks a rule."""
    layer, faults = layer_of(module), []
    late = {name for importer, name in LATE_IMPORTS if importer == module} - list_imports(
        remove_functions(source)
    )
    for name in sorted(list_imports(source) - late):
        library, imported_layer = name.split(".")[0], layer_of(name)
        if not library:
            faults.append(f"{module} imports {name} without the name of the package")
        elif not module.startswith(ALLOWED_IMPORTERS.get(library, "")):
            faults.append(f"{module} imports {library}; only {ALLOWED_IMPORTERS[library]} may")
        elif "pyplot" in name:
            faults.append(f"{module} imports pyplot, which leaks figures in a server")
        elif library not in ("vitdemo", "app", "train"):
            continue
        elif (
            module.startswith(COMPONENTS_PACKAGE)
            and name.startswith("vitdemo.page.")
            and not name.startswith(COMPONENTS_IMPORTS)
        ):
            faults.append(f"{module} imports {name}, but components may not import tabs")
        elif imported_layer not in (*LAYERS, "train"):
            faults.append(f"{module} imports {name}, which is not in the list of layers")
        elif imported_layer != layer and layer_height(imported_layer) >= layer_height(layer):
            faults.append(f"{module} imports {name}, which is above it")
    return faults


def read_sources() -> dict[str, str]:
    """Return the source code of the package, app.py and train.py by dotted module name."""
    files = [*(ROOT / "vitdemo").rglob("*.py"), *(ROOT / n for n in ("app.py", "train.py"))]
    named = {".".join(file.relative_to(ROOT).with_suffix("").parts): file for file in files}
    return {n.removesuffix(".__init__"): f.read_text("utf-8") for n, f in named.items()}


SOURCES = read_sources()
PACKAGE_SOURCES = [SOURCES.pop("vitdemo"), SOURCES.pop("vitdemo.cli")]


def test_modules_import_only_lower_layers_and_allowed_libraries():
    # Only the functions for notebooks are imported, at their first use.
    assert [list_imports(source) for source in PACKAGE_SOURCES] == [{"vitdemo.notebook"}, set()]
    assert not list_imports(remove_functions(PACKAGE_SOURCES[0]))
    assert {layer_of(module) for module in SOURCES} == {*LAYERS, "train"}
    assert [
        fault for module, source in SOURCES.items() for fault in find_import_faults(module, source)
    ] == []


def test_strings_contain_no_html():
    """Require separate files for templates and scripts."""
    modules = [
        name
        for name, source in SOURCES.items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and re.search(r"</\w+>", str(node.value))
    ]
    assert set(modules) == {"vitdemo.page.modules"}  # it adds tags to the head of the page


def find_import_cycle(sources: dict[str, str]) -> list[str]:
    """Return the modules of an import cycle, first and last the same; [] without a cycle."""
    graph = {}
    for module, source in sources.items():
        names = list_imports(source) - {name for file, name in LATE_IMPORTS if file == module}
        targets = {name if name in sources else name.rsplit(".", 1)[0] for name in names}
        graph[module] = (targets & set(sources)) - {module}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


# Only the package `models` compares names of families and classes of models. Other modules ask a
# family, a run or a model for a capability, so that a new family is one module.
FAMILY_TEST = re.compile(
    r"""family (==|!=|in) ["'(]|isinstance\([^()]*\b(TimmRun|OpenedModel|ConvNet|ResNet18|"""
    r"""VisionTransformer|PatchEmbed|ConvEmbed)\b"""
)


def test_modules_ask_for_capabilities_instead_of_families():
    files = [path for path in (ROOT / "vitdemo").rglob("*.py") if path.parent.name != "models"]
    assert not [str(path) for path in files if FAMILY_TEST.search(path.read_text("utf-8"))]
    assert FAMILY_TEST.search('if spec.family == "timm":')
    assert FAMILY_TEST.search("isinstance(run, TimmRun | Run)")


def test_imports_have_no_cycle():
    assert find_import_cycle(SOURCES) == []
    pair = {"vitdemo.a": "from vitdemo.a.b import x", "vitdemo.a.b": "from vitdemo import a"}
    assert set(find_import_cycle(pair)) == {"vitdemo.a", "vitdemo.a.b"}
    late = {"vitdemo.a": "def late():\n    from vitdemo.a.b import x"}
    assert set(find_import_cycle(pair | late)) == {"vitdemo.a", "vitdemo.a.b"}


def test_imported_libraries_are_in_the_requirements():
    """Require all libraries except `spaces`, which every Space on ZeroGPU already has.

    Libraries of an extra may be imported inside a function only.
    """
    lines = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    required = {import_name(line) for line in lines if line and not line.startswith("#")}
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    extras = project.partition("[project.optional-dependencies]\n")[2].partition("\n\n")[0]
    optional = {import_name(requirement) for requirement in re.findall(r'"(.+?)"', extras)}
    known = required | {"vitdemo", "app", "train", "spaces", *sys.stdlib_module_names}
    for source in SOURCES.values():
        assert list_libraries(remove_functions(source)) <= known
        assert list_libraries(source) <= known | optional


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("vitdemo.data", "from vitdemo.training import Trainer"),
        ("vitdemo.data", "from vitdemo import errors, runs"),
        ("vitdemo.data", "def late():\n    import vitdemo.runs"),
        ("vitdemo.data", "from .errors import DataError"),
        ("vitdemo.data", "from vitdemo.cli.train import main"),
        ("vitdemo.context", "import gradio as gr"),
        ("vitdemo.figures", "import matplotlib.pyplot as plt"),
        ("vitdemo.page.components.header", "from vitdemo.page.explore.tab import start_on_load"),
        ("vitdemo.page.explore", "from vitdemo.stranger import thing"),
        ("vitdemo.cli.train", "from vitdemo import attention"),
        ("vitdemo.cli.train", "from vitdemo.report import render_report"),
        ("vitdemo.cli.train", "def late():\n    from vitdemo import figures"),
        ("vitdemo.runs", "def late():\n    from vitdemo.report import render_report"),
    ],
)
def test_import_violations_are_detected(module, source):
    assert len(find_import_faults(module, source)) == 1
