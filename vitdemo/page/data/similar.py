"""Section "Similar images": t-SNE maps of test images, and nearest neighbours of an image."""

import math
import threading
import time
from collections.abc import Sequence

import gradio as gr
import numpy as np

from vitdemo.analyses.features import (
    MAX_SAMPLE_SIZE,
    PIXEL_SPACE,
    ImageSample,
    find_neighbours,
    load_planes,
)
from vitdemo.context import AppContext
from vitdemo.errors import ImageError, Stopped
from vitdemo.metrics import DASH
from vitdemo.page.components.article import Document, DocumentBlock, Heading, Text
from vitdemo.page.components.pictures import ImageItem, ImageRow, concatenate_images
from vitdemo.page.components.planes import EmbeddingPlane, EmbeddingScatter
from vitdemo.page.components.run_choice import RunChoice, group_runs, update_run_choices
from vitdemo.page.components.table import Table
from vitdemo.page.explore.tab import ExploreTab
from vitdemo.page.kit import (
    LONG_QUEUE,
    NO_API,
    REFRESH_EVENT,
    Cancellation,
    parse_pick,
    show_user_errors,
)
from vitdemo.page.sections import LazySections

SIMILAR_IMAGES_INTRO = (
    "Two t-SNE maps of test images: one of their **raw pixels**, one of the **features** that the "
    "model's classifier receives. If the model has learned the classes, they form separate groups. "
    "t-SNE only preserves neighbourhoods: distances between groups and group sizes are not "
    "meaningful. The table below is computed from the features themselves. Point at a dot to see "
    "its image, or use the arrow keys. Click it to open the image in *Explore*."
)
NO_MAP_MESSAGE = (
    "No map has been computed yet. The computation takes a few seconds, and the result is cached."
)
MAP_STOPPED_MESSAGE = "Stopped. No map was computed."
SEPARATION_HELP = (
    "Between / within: mean distance between images of different classes, divided by the mean "
    "distance between images of the same class. Even perfectly separable classes can have a value "
    "near 1. The fraction of nearest neighbours of the same class measures separability more "
    "directly. Both values are computed from the features, not from the map."
)


def build(sections: LazySections, context: AppContext, look: ExploreTab) -> None:
    """Lay out the section and connect its events; images open in the tab Explore."""
    gr.Markdown(SIMILAR_IMAGES_INTRO)
    model = RunChoice(group_runs(context.trained_runs()), elem_id="similar-model")
    with gr.Row():
        count = gr.Slider(
            200,
            MAX_SAMPLE_SIZE,
            MAX_SAMPLE_SIZE,
            step=100,
            label="Test images",
            elem_id="similar-count",
            min_width=260,
        )
        with gr.Column(min_width=260):
            begin = gr.Button("Compute t-SNE maps", variant="primary", elem_id="lay-out")
            stop = gr.Button("Stop", size="sm", elem_id="lay-out-stop")
    map_view = EmbeddingScatter(NO_MAP_MESSAGE, elem_id="tsne")
    parting = Document(elem_id="parting")
    near = gr.Button("Find nearest neighbours", elem_id="find-near")
    near_view = Document(elem_id="near")

    stops = Cancellation()

    @show_user_errors
    def lay_out(name, number, progress=gr.Progress()):  # noqa: B008
        started, own = time.monotonic(), threading.get_ident()
        raise_if_stopped = stops.make_check()

        def report(share, words):
            raise_if_stopped()
            if threading.get_ident() == own:  # gradio reports progress only from its own thread
                # If the fraction is unknown, the progress bar counts seconds.
                so_far = (round(time.monotonic() - started), None) if share is None else share
                progress(so_far, desc=words, unit="s")

        try:
            found = load_planes(context, name, int(number), report)
        except Stopped:
            return MAP_STOPPED_MESSAGE, []
        return found, separation_blocks(found)

    @show_user_errors
    def find(image, name):
        if image is None:
            raise ImageError("No image is chosen. Choose one in the tab Explore.")
        return neighbour_blocks(name or PIXEL_SPACE, *find_neighbours(context, name, image))

    stops.start_on_click(begin, lay_out, [model, count], [map_view, parting])
    stop.click(stops.stop, **REFRESH_EVENT)
    near.click(find, [look.image, model], near_view, **NO_API, **LONG_QUEUE)

    def picked(name, event: gr.EventData):
        return parse_pick(event.pick, context.count_test_images())[0], name

    for view in (map_view, near_view):
        look.open_test_image_on(view.pick, picked, [model])

    def refresh(name):
        return update_run_choices(context.trained_runs(), name)[0]

    # A visit to the section only updates the list of models; the computed maps stay.
    sections.add("data-similar", refresh, [model], [model], triggers=[])


def separation_blocks(found: Sequence[EmbeddingPlane]) -> list[DocumentBlock]:
    """Return a table of the class separation in each feature space."""
    rows = [
        (
            space.name,
            f"{space.features.shape[1]:,}",
            DASH if math.isnan(space.distance_ratio) else f"{space.distance_ratio:.3f}",
            DASH if math.isnan(space.purity) else f"{100 * space.purity:.1f}%",
        )
        for space, _ in found
    ]
    header = ("Features", "Dimension", "Between / within", "Nearest neighbour of same class")
    return [Heading("Separation of the classes"), Table(header, rows), Text(SEPARATION_HELP)]


def neighbour_blocks(
    name: str, sample: ImageSample, places: np.ndarray, cosines: np.ndarray
) -> list[DocumentBlock]:
    """Return the nearest neighbours of an image as buttons with class and cosine similarity."""
    items = []
    for i, cosine in zip(places, cosines, strict=True):
        label, number = sample.source.classes[sample.labels[i]], int(sample.indices[i])
        alt = f"{label}, test image {number}, cosine {cosine:.3f}. Open in Explore."
        items.append(ImageItem(alt, label, f"cosine {cosine:.3f}", pick=str(number)))
    return [
        Heading(f"Nearest neighbours by the features of {name}"),
        Text(f"Nearest of {len(sample):,} test images to the image in Explore, by cosine."),
        ImageRow(items, concatenate_images(sample.thumbnails[places])),
    ]
