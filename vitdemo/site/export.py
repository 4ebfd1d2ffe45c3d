"""Export the page as a static site: recorded results, which any file server can send.

`record_site` builds the page and records its views (`record.py`). `export_site` adds one HTML
document with the page's modules and style, and the files for use without a network (`offline.py`).
The site works under any path prefix. `export_single_file` writes the site of one model as one HTML
file (`single_file.py`). Both contain no images of the dataset.
"""

import functools
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from vitdemo.context import AppContext
from vitdemo.errors import SiteError
from vitdemo.installation import included_folder
from vitdemo.metrics import format_with_noun
from vitdemo.page import FEATURE, bridge, build_page
from vitdemo.page.feature import Payload, Task
from vitdemo.page.image_sources import load_photo_groups, load_truth_group
from vitdemo.page.state_key import StateKey
from vitdemo.page.state_keys import MODEL
from vitdemo.page.view_state import ViewState, get_needs, needs
from vitdemo.publishing.onnx_file import check_packages, list_missing_packages
from vitdemo.runs import Run
from vitdemo.runs.provenance import describe_version
from vitdemo.site import document, offline
from vitdemo.site.controls import list_controls
from vitdemo.site.layout import CARDS, build_layout
from vitdemo.site.record import NEEDS_DATASET, Recorder, Report, describe_starts
from vitdemo.site.single_file import write_single_file
from vitdemo.site.states import RECORDED_TASKS, list_images

SUMMARY = "Recorded results of {models}: this site needs no server"
NO_GRAPHS = (
    "Browsers cannot run the model '{name}', so the file would not show results of own photos. "
    "Choose another model with --model."
)
NO_FOLDER = Path("no-dataset")  # no image of a dataset may be read


class SingleRunContext(AppContext):
    """A context that lists only the run `name`."""

    def __init__(self, name: str, *arguments: object):
        super().__init__(*arguments)
        self.name = name

    def list_runs(self) -> tuple[list[Run], list[str]]:
        return [run for run in super().list_runs()[0] if run.name == self.name], []

    def list_runs_and_models(self) -> tuple[list[Run], list[str]]:
        return self.list_runs()


def export_site(
    folder: Path, roots: Iterable[Path] = (), *, force: bool = False, report: Report
) -> dict[str, int]:
    """Write the site to `folder`, and return the size of each file in bytes by its path.

    `roots` are folders of runs; by default, the site contains the included runs. `folder` appears
    only when the site is complete. Raises `SiteError` if it is not empty and not `force`.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())) and not force:
        raise SiteError(f"'{folder}' is not an empty folder. Use --force to replace it.")
    with create_temporary_folder(folder.parent) as temporary:
        context = AppContext(
            *list_context_arguments(roots), ground_truth_root=included_folder("ground_truth")
        )
        sizes = write_site(temporary, context, report)
        if folder.exists():
            shutil.rmtree(folder)
        os.chmod(temporary, 0o755)  # of mkdtemp: 0o700
        temporary.replace(folder)
    return sizes


def export_single_file(
    file: Path, name: str, roots: Iterable[Path] = (), *, force: bool = False, report: Report
) -> int:
    """Write the site of the run `name` as one HTML file, and return its size in bytes.

    Raises `SiteError` if `file` exists and not `force`, or if browsers cannot run the model,
    `RunError` if there is no such run, and `ModelError` if optional packages are missing.
    """
    if file.is_dir() or (file.exists() and not force):
        raise SiteError(f"'{file}' exists. Use --force to replace a file.")
    check_packages()
    arguments = list_context_arguments(roots)
    AppContext(*arguments).find_run(name)
    context = SingleRunContext(name, *arguments)
    with create_temporary_folder(file.parent) as temporary:
        site = record_site(Recorder(context, temporary), report, needs_graphs=True)
        write_single_file(file, temporary, site.settings, site.layout)
    return file.stat().st_size


def list_context_arguments(roots: Iterable[Path]) -> tuple[list[Path], Path, torch.device]:
    return [*roots] or [included_folder("runs")], NO_FOLDER, torch.device("cpu")


@contextmanager
def create_temporary_folder(parent: Path) -> Iterator[Path]:
    """Create a folder in `parent`, and remove it at the end of the block."""
    parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".vitdemo-site-", dir=parent))
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@dataclass(frozen=True)
class RecordedSite:
    """Settings of `main.js`, and the HTML of the layout, of a recorded site."""

    settings: dict[str, object]
    layout: str


def write_site(folder: Path, context: AppContext, report: Report) -> dict[str, int]:
    recorder = Recorder(context, folder)
    site = record_site(recorder, report)
    runtime = document.read_runtime() if site.settings["graphs"] else {}
    files_url = f"files/{document.VERSION}"  # a new version has new addresses in browsers' caches
    for path, content in (document.FILES | runtime).items():
        parent, _, name = f"{files_url}/{path}".rpartition("/")
        recorder.write(parent, name, content)
    offline.write_app(recorder.write)
    recorder.write(".", "README.md", (document.FOLDER / "space.md").read_bytes())
    version = offline.hash_site(folder, [json.dumps(site.settings), site.layout])
    text = document.build_document(
        {**site.settings, "version": version}, site.layout, f"./{files_url}", offline.MANIFEST_LINK
    )
    recorder.write(".", "index.html", text.encode())
    offline.write_service_worker(folder, recorder.write, version, list_models(site)[0])
    return recorder.sizes


def list_models(site: RecordedSite) -> list[str]:
    """Return the names of the models in the order of the menu, or "" without models."""
    return [name for _, names in site.settings["models"]["groups"] for name in names] or [""]


def record_site(recorder: Recorder, report: Report, *, needs_graphs: bool = False) -> RecordedSite:
    """Record all views of the page; raises `SiteError` if `needs_graphs` and there are none."""
    context = recorder.context
    page = build_page(context)
    views = bridge.list_places(page)
    places = views | list_controls(page)
    places = {name: place for name, place in places.items() if name not in CARDS}
    layout = build_layout(page, places)
    places = {name: place for name, place in places.items() if f' id="{name}"' in layout}
    payloads, tasks = page.bridge.responder.payloads, page.bridge.responder.runner.tasks
    for view, task in RECORDED_TASKS.items():
        payloads = {**payloads, view: add_result(tasks[task], payloads[view])}
    recorded = {views[name]: None for name in places if views.get(name) in payloads}
    graphs = dict(FEATURE.graphs) if not list_missing_packages() else {}
    payloads |= {name: add_need(payloads[name], MODEL) for name in graphs}
    description = page.bridge.description | {"tasks": []}
    for name in graphs:
        description["needs"][name] = [key.name for key in get_needs(payloads[name]).watched]
    starts = {key: each["start"] for key, each in description["controls"].items()}
    with context.list_once():
        recorder.record_graphs(payloads, graphs, starts, report)
        if needs_graphs and not any(path.endswith(".onnx") for path in recorder.sizes):
            raise SiteError(NO_GRAPHS.format(name=context.list_runs()[0][0].name))
        recorder.record(payloads, [*recorded], graphs, starts, report)
        if graphs:
            description["tasks"] = recorder.record_tasks(FEATURE.loops, report)
            recorder.record_inputs({"torch": torch.__version__, "export": describe_version()})
    settings = {
        "connection": "recorded",
        "places": places,
        "description": description,
        "graphs": {name: describe_starts(graph) for name, graph in graphs.items()},
        "photos": recorder.record_photos() if graphs else {},
        "image": list_images()[0],
        "tabs": page.tabs,
        "components": describe_components(recorder),
        **recorder.describe_models(),
    }
    return RecordedSite(settings, layout)


def add_result(task: Task, payload: Payload) -> Payload:
    """Return a payload function that first runs `task`, so that the result is in the cache."""

    @functools.wraps(payload)
    def compute(context: AppContext, state: ViewState) -> object:
        task(context, state, lambda done, total, text: None)
        return payload(context, state)

    return compute


def add_need(payload: Payload, key: StateKey) -> Payload:
    """Return a payload function that also watches `key`."""
    found = get_needs(payload)
    if key in found.watched:
        return payload

    @needs(*found.watched, key, unwatched=found.unwatched)
    @functools.wraps(payload)
    def compute(context: AppContext, state: ViewState) -> object:
        return payload(context, state)

    return compute


def describe_components(recorder: Recorder) -> dict[str, dict]:
    """Return the script and the value of the header and of the example photos, by element id."""
    models = format_with_noun(len(recorder.context.explainable_runs()), "model")
    truth = load_truth_group() if recorder.context.ground_truth_runs() else None
    images = {**load_photo_groups(), "truth": truth, "tests": None, "sentence": NEEDS_DATASET}
    values = {
        "header": {"summary": SUMMARY.format(models=models), "problems": []},
        "offers": images,
    }
    return {
        name: {"part": name, "value": recorder.serialise(value)} for name, value in values.items()
    }
