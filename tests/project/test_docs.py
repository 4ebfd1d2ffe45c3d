"""Examples of the documentation run, its links work, and its size is limited."""

import ast
import re
from pathlib import Path

import pytest
import torch
from PIL import Image

from vitdemo.context import AppContext

ROOT = Path(__file__).parents[2]
MAX_README_LINES, MAX_DOCS_WORDS = 110, 12_300
EXAMPLE_PATTERN = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("page", ["README.md", "docs/models-and-api.md"])
def test_python_examples_run(page, monkeypatch, tmp_path):
    """Run all examples of a page in order, except those that need a running page."""
    (tmp_path / "assets").symlink_to(ROOT / "assets")
    monkeypatch.chdir(tmp_path)  # an example writes a file
    names = {"torch": torch, "AppContext": AppContext, "image": Image.new("RGB", (40, 40))}
    examples = EXAMPLE_PATTERN.findall((ROOT / page).read_text(encoding="utf-8"))
    assert examples
    for example in examples:
        if "gradio_client" not in example:
            exec(example, names)


PAGES = ["README.md", *(f"{folder}/*.md" for folder in ("docs", "benchmarks", "benchmarks/log"))]


@pytest.mark.parametrize(
    "page",
    [path for pattern in PAGES for path in sorted(ROOT.glob(pattern))],
    ids=lambda path: path.name,
)
def test_links_lead_to_files_and_headings_and_no_placeholder_is_left(page):
    text = page.read_text("utf-8")
    assert "@@" not in text
    links = re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)#?([^)\s]*)\)", text)
    assert [path for path, _ in links if not (page.parent / path).exists()] == []
    anchors = {(page.parent / path if path else page, name) for path, name in links if name}
    assert [name for target, name in anchors if name not in list_anchors(target)] == []


def list_anchors(page: Path) -> list[str]:
    """Return the anchors of the headings of a Markdown file, as GitHub forms them."""
    headings = re.findall(r"(?m)^#+ (.+)$", page.read_text("utf-8"))
    return [re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings]


def test_readme_and_docs_are_short():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= MAX_README_LINES
    pages = [path for path in ROOT.glob("docs/*.md") if path.name != "development.md"]
    assert sum(len(path.read_text("utf-8").split()) for path in pages) <= MAX_DOCS_WORDS


def test_docs_link_the_index_of_the_log_only():
    """Pages of the log are not changed later, so the documentation states current results."""
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md")]
    assert [path.name for path in pages if "benchmarks/log/" in path.read_text("utf-8")] == []


def test_code_names_existing_pages_of_the_docs():
    files = [
        ROOT / "Dockerfile",
        *(f for d in ("vitdemo", "benchmarks") for f in ROOT.glob(f"{d}/**/*.py")),
    ]
    named = {
        name for file in files for name in re.findall(r"docs/[\w-]+\.md", file.read_text("utf-8"))
    }
    assert named and not [name for name in named if not (ROOT / name).is_file()]


def test_index_of_the_log_lists_each_page_once_newest_day_first():
    index = (ROOT / "benchmarks" / "LOG.md").read_text("utf-8")
    rows = re.findall(r"(?m)^\| \[(\d{4}-\d\d-\d\d): .*\]\(log/(.*)\) \| \S", index)
    pages = [path.name for path in (ROOT / "benchmarks" / "log").iterdir()]
    assert sorted(name for _, name in rows) == sorted(pages)
    assert [date for date, _ in rows] == sorted((name[:10] for name in pages), reverse=True)


def test_code_names_existing_pages_of_the_log():
    files = [*ROOT.glob("vitdemo/**/*.py"), *ROOT.glob("benchmarks/*.py"), *ROOT.glob("*.py")]
    named = {name for file in files for name in re.findall(r"log/[\w-]+\.md", file.read_text())}
    assert named and not [name for name in named if not (ROOT / "benchmarks" / name).is_file()]


def list_defined_names() -> set[str]:
    """Return the names of all functions and classes of the package, and of what it imports."""
    names = set()
    for file in [*(ROOT / "vitdemo").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.ImportFrom | ast.Import):
                names |= {alias.asname or alias.name for alias in node.names}
    return names


def test_calls_in_docstring_examples_name_real_functions():
    """An example is an indented line that is valid Python."""
    defined, unknown = list_defined_names(), []
    for file in (ROOT / "vitdemo").rglob("*.py"):
        text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        for line in re.findall(r"^ {4}(\S.*)$", text, re.MULTILINE):
            try:
                calls = [n for n in ast.walk(ast.parse(line)) if isinstance(n, ast.Call)]
            except SyntaxError:
                continue
            names = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
            unknown += [
                f"{file.name}: {name}" for name in sorted(names - defined - {"range", "model"})
            ]
    assert unknown == []
