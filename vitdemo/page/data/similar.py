"""Similar pictures: test pictures as points, near where a model finds them alike; neighbours."""

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
    "Test pictures as points: by their **raw pixels**, and by the **features** from which the "
    "chosen model answers: if it has learned the classes, they part. The places are t-SNE's, which "
    "keeps near what is near; distances and sizes of groups mean little in it, so judge by the "
    "figures below, which are computed on the features themselves. Point at a dot (or move with "
    "the arrow keys) to see its picture; click it to open it in *Look*."
)
EMPTY = "Nothing is laid out yet: it takes some seconds, and the next time it is there at once."
STOPPED = "Stopped: nothing was laid out."
PARTING = (
    "Between / within: the mean distance of two pictures of different classes over that of two of "
    "one class; near 1 the mean distance does not tell classes apart, though other things may: "
    "classes that are perfectly separable can have 1.02. The second column is nearer to that "
    "question. Both are computed on the features, not on the places above."
)


def build(sections: Sections, workbench: Workbench, look: Look) -> None:
    """Lay out the section; what is picked opens in Look through `look`."""
    gr.Markdown(WORDS)
    model = RunChoice(grouped(workbench.trained_runs()), elem_id="similar-model")
    with gr.Row():
        count = gr.Slider(
            200, MOST, MOST, step=100, label="Pictures", elem_id="similar-count", min_width=260
        )
        with gr.Column(min_width=260):
            begin = gr.Button("Lay out the pictures", variant="primary", elem_id="lay-out")
            stop = gr.Button("Stop", size="sm", elem_id="lay-out-stop")
    map_view = Planes(EMPTY, elem_id="tsne")
    parting = Article(elem_id="parting")
    near = gr.Button("Neighbours of the picture in Look", elem_id="find-near")
    near_view = Article(elem_id="near")

    stops = Stops()

    @for_people
    def lay_out(name, number, progress=gr.Progress()):  # noqa: B008
        started, own = time.monotonic(), threading.get_ident()
        raise_if_stopped = stops.watch()

        def report(share, words):
            raise_if_stopped()
            if threading.get_ident() == own:  # gradio knows no other thread
                # Without a share the bar counts seconds.
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
            raise ImageError("Choose a picture in Look first: none is kept.")
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

    # Opened, it refreshes its models alone: what was laid out stays.
    sections.add("data-similar", refresh, [model], [model], by=[])


def ratios(found: Sequence[Plane]) -> list[Piece]:
    """How far classes part in each space, computed on the features."""
    rows = [
        (
            space.name,
            f"{space.features.shape[1]:,}",
            DASH if math.isnan(space.ratio) else f"{space.ratio:.3f}",
            DASH if math.isnan(space.purity) else f"{100 * space.purity:.1f} %",
        )
        for space, _ in found
    ]
    header = ("Space", "Width", "Between / within", "Nearest is of the same class")
    return [Heading("How far the classes part"), Table(header, rows), Text(PARTING)]


def nearest(name: str, sample: Sample, places: np.ndarray, cosines: np.ndarray) -> list[Piece]:
    """The neighbours as buttons, with their class and cosine."""
    items = []
    for i, cosine in zip(places, cosines, strict=True):
        label, number = sample.source.classes[sample.labels[i]], int(sample.indices[i])
        alt = f"{label}, test picture {number}, cosine {cosine:.3f}. Open it in Look."
        items.append(Item(alt, label, f"cosine {cosine:.3f}", pick=str(number)))
    return [
        Heading(f"Nearest to the picture in Look, by the features of {name}"),
        Text(f"Of {len(sample):,} test pictures, the nearest first."),
        Pictures(items, strip(sample.small[places])),
    ]
