"""Export the page as a static site: recorded results, which any file server can send.

`export_site` builds the page, records its views (`record.py`), and writes one HTML document with
the page's modules and style. The site works under any path prefix. It contains no images of the
dataset.
"""

import functools
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

import torch

from vitdemo.context import AppContext
from vitdemo.errors import SiteError
from vitdemo.installation import included_folder
from vitdemo.page import FEATURE, bridge, build_page
from vitdemo.page.feature import Payload, Task
from vitdemo.page.image_sources import load_photo_groups
from vitdemo.page.state_key import StateKey
from vitdemo.page.state_keys import MODEL
from vitdemo.page.view_state import ViewState, get_needs, needs
from vitdemo.publishing.onnx_file import list_missing_packages
from vitdemo.site import document
from vitdemo.site.controls import list_controls
from vitdemo.site.layout import CARDS, build_layout
from vitdemo.site.record import NEEDS_DATASET, Recorder, Report, describe_starts
from vitdemo.site.states import RECORDED_TASKS, list_images

SUMMARY = "Recorded results of {count} models: this site needs no server"
NO_FOLDER = Path("no-dataset")  # no image of a dataset may be read


def export_site(
    folder: Path, roots: Iterable[Path] = (), *, force: bool = False, report: Report
) -> dict[str, int]:
    """Write the site to `folder`, and return the size of each file in bytes by its path.

    `roots` are folders of runs; by default, the site contains the included runs. `folder` appears
    only when the site is complete. Raises `SiteError` if it is not empty and not `force`.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())) and not force:
        raise SiteError(f"'{folder}' is not an empty folder. Use --force to replace it.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".vitdemo-site-", dir=folder.parent))
    try:
        sizes = _write_site(temporary, [*roots] or [included_folder("runs")], report)
        if folder.exists():
            shutil.rmtree(folder)
        os.chmod(temporary, 0o755)  # of mkdtemp: 0o700
        temporary.replace(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return sizes


def _write_site(folder: Path, roots: list[Path], report: Report) -> dict[str, int]:
    context = AppContext(roots, NO_FOLDER, torch.device("cpu"))
    page = build_page(context)
    views = bridge.list_places(page)
    places = views | list_controls(page)
    places = {name: place for name, place in places.items() if name not in CARDS}
    layout = build_layout(page, places)
    places = {name: place for name, place in places.items() if f' id="{name}"' in layout}
    recorder = Recorder(context, folder)
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
        recorder.record(payloads, [*recorded], starts, report)
        recorder.record_graphs(payloads, graphs, starts, report)
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
    recorder.write(".", "index.html", document.build_document(settings, layout).encode())
    runtime = document.read_runtime() if graphs else {}
    for path, content in (document.FILES | runtime).items():
        parent, _, name = f"files/{path}".rpartition("/")
        recorder.write(parent, name, content)
    return recorder.sizes


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
    count = len(recorder.context.explainable_runs())
    values = {
        "header": {"summary": SUMMARY.format(count=count), "problems": []},
        "offers": {**load_photo_groups(), "tests": None, "sentence": NEEDS_DATASET},
    }
    return {
        name: {"part": name, "value": recorder.serialise(value)} for name, value in values.items()
    }
