"""Section "Similar images": t-SNE maps of test images, and nearest neighbours of an image."""

import math
import threading
import time
from collections.abc import Sequence

import gradio as gr
import numpy as np

from vitdemo.errors import ImageError, Stopped
from vitdemo.features import MOST, PIXELS, Sample, neighbours, planes
from vitdemo.metrics import DASH
from vitdemo.page.components.article import Article, Heading, Piece, Text
from vitdemo.page.components.pictures import Item, Pictures, strip
from vitdemo.page.components.planes import Plane, Planes
from vitdemo.page.components.run_choice import RunChoice, grouped, renewed_runs
from vitdemo.page.components.table import Table
from vitdemo.page.kit import LONG_QUEUE, PRIVATE, QUIET, Stops, for_people, picked_numbers
from vitdemo.page.look.tab import Look
from vitdemo.page.sections import Sections
from vitdemo.workbench import Workbench

WORDS = (
    "Two t-SNE maps of test images: one of their **raw pixels**, one of the **features** that the "
    "model's classifier receives. If the model has learned the classes, they form separate groups. "
    "t-SNE only preserves neighbourhoods: distances between groups and group sizes are not "
    "meaningful. The table below is computed from the features themselves. Point at a dot to see "
    "its image, or use the arrow keys. Click it to open the image in *Explore*."
)
EMPTY = "No map has been computed yet. It takes a few seconds and is cached afterwards."
STOPPED = "Stopped. No map was computed."
PARTING = (
    "Between / within: mean distance between images of different classes, divided by the mean "
    "distance between images of the same class. Even perfectly separable classes can have a value "
    "near 1. The fraction of nearest neighbours of the same class measures separability more "
    "directly. Both are computed from the features, not from the map."
)


def build(sections: Sections, workbench: Workbench, look: Look) -> None:
    """Lay out the section; a chosen image opens in the tab Explore."""
    gr.Markdown(WORDS)
    model = RunChoice(grouped(workbench.trained_runs()), elem_id="similar-model")
    with gr.Row():
        count = gr.Slider(
            200, MOST, MOST, step=100, label="Test images", elem_id="similar-count", min_width=260
        )
        with gr.Column(min_width=260):
            begin = gr.Button("Compute t-SNE maps", variant="primary", elem_id="lay-out")
            stop = gr.Button("Stop", size="sm", elem_id="lay-out-stop")
    map_view = Planes(EMPTY, elem_id="tsne")
    parting = Article(elem_id="parting")
    near = gr.Button("Find nearest neighbours", elem_id="find-near")
    near_view = Article(elem_id="near")

    stops = Stops()

    @for_people
    def lay_out(name, number, progress=gr.Progress()):  # noqa: B008
        started, own = time.monotonic(), threading.get_ident()
        raise_if_stopped = stops.watch()

        def report(share, words):
            raise_if_stopped()
            if threading.get_ident() == own:  # gradio reports progress only from its own thread
                # If the fraction is unknown, the progress bar counts seconds.
                so_far = (round(time.monotonic() - started), None) if share is None else share
                progress(so_far, desc=words, unit="s")

        try:
            found = planes(workbench, name, int(number), report)
        except Stopped:
            return STOPPED, []
        return found, ratios(found)

    @for_people
    def find(image, name):
        if image is None:
            raise ImageError("No image is chosen. Choose one in the tab Explore.")
        return nearest(name or PIXELS, *neighbours(workbench, name, image))

    stops.button(begin, lay_out, [model, count], [map_view, parting])
    stop.click(stops.stop, **QUIET)
    near.click(find, [look.picture, model], near_view, **PRIVATE, **LONG_QUEUE)

    def picked(name, event: gr.EventData):
        return picked_numbers(event.pick, workbench.test_size())[0], name

    for view in (map_view, near_view):
        look.connect(view.pick, picked, [model])

    def refresh(name):
        return renewed_runs(workbench.trained_runs(), name)[0]

    # Opening the section only refreshes the list of models; the computed maps stay.
    sections.add("data-similar", refresh, [model], [model], by=[])


def ratios(found: Sequence[Plane]) -> list[Piece]:
    """Return a table of the class separation in each feature space."""
    rows = [
        (
            space.name,
            f"{space.features.shape[1]:,}",
            DASH if math.isnan(space.ratio) else f"{space.ratio:.3f}",
            DASH if math.isnan(space.purity) else f"{100 * space.purity:.1f}%",
        )
        for space, _ in found
    ]
    header = ("Features", "Dimension", "Between / within", "Nearest neighbour of same class")
    return [Heading("Separation of the classes"), Table(header, rows), Text(PARTING)]


def nearest(name: str, sample: Sample, places: np.ndarray, cosines: np.ndarray) -> list[Piece]:
    """Return the neighbours as buttons with class and cosine similarity."""
    items = []
    for i, cosine in zip(places, cosines, strict=True):
        label, number = sample.source.classes[sample.labels[i]], int(sample.indices[i])
        alt = f"{label}, test image {number}, cosine {cosine:.3f}. Open in Explore."
        items.append(Item(alt, label, f"cosine {cosine:.3f}", pick=str(number)))
    return [
        Heading(f"Nearest neighbours by the features of {name}"),
        Text(f"Nearest of {len(sample):,} test images to the image in Explore, by cosine."),
        Pictures(items, strip(sample.small[places])),
    ]
