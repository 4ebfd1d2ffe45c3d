"""Section "Similar images": t-SNE maps of test images, and nearest neighbours of an image.

The payload of the maps is {"message": str, "is_measuring": bool} until the task has computed them,
then:

    {"classes": [name, ...], "numbers": (N,), "labels": (N,), "sheet": file, "columns": int,
     "planes": [{"name", "places": (N, 2) in 0..1}, ...], "separation": document,
     "open": {"source": prefix of the image's source, ...}}

The payload of the neighbours is {"blocks": document, "open": {...}}. The document is empty until
the features are in the cache. With "open", the browser opens a test image in Explore.

Letters: N test images, K neighbours.
"""

import math
import threading
import time
from collections.abc import Sequence

import gradio as gr
import numpy as np

from vitdemo.analyses.feature_time import measure_in_background
from vitdemo.analyses.features import (
    MAX_SAMPLE_SIZE,
    PIXEL_SPACE,
    EmbeddingPlane,
    ImageSample,
    ProgressReport,
    find_cached_planes,
    find_neighbours,
    has_feature_space,
    load_feature_space,
    load_planes,
    load_sample,
)
from vitdemo.analyses.tsne_file import read_planes
from vitdemo.context import AppContext
from vitdemo.documents import DocumentBlock, Heading, Text
from vitdemo.documents.images import (
    ImageItem,
    ImageRow,
    concatenate_images,
    tile_images,
)
from vitdemo.documents.table import Table
from vitdemo.metrics import DASH, format_time
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import ImageFile, add_view, document_payload, load_square, round_numbers
from vitdemo.page.components.run_choice import (
    RunChoice,
    choose_run,
    describe_run_choices,
    group_runs,
)
from vitdemo.page.explore.tab import describe_opening
from vitdemo.page.feature import Feature, PageSetup, Report, ViewData
from vitdemo.page.image_sources import TEST_PREFIX
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import Run

MAPS_VIEW, NEIGHBOURS_VIEW = "similar_images", "neighbours"  # also the names of their tasks
THUMBNAIL_COLUMNS = 50  # thumbnails per row of the sheet
PLACE_DIGITS = 4
SIMILAR_IMAGES_INTRO = (
    "t-SNE maps of test images, from their **raw pixels** and from the **features** that the "
    "model's classifier receives."
)
ABOUT_MAPS = (
    "If the model has learned the classes, they form separate groups in the map of the features. "
    "t-SNE only preserves neighbourhoods: distances between groups and group sizes are not "
    "meaningful. The table below the maps is computed from the features themselves.\n\nPoint at a "
    "dot to see its image, or use the arrow keys. Click a dot to open its image in *Explore*."
)
MEASURING_MESSAGE = "Measuring how long the maps take on this machine …"
NO_MAP_MESSAGE = (
    "Computing the maps takes about {time} on this machine now. The maps are then cached."
)
SEPARATION_HELP = (
    "Between / within: mean distance between images of different classes, divided by the mean "
    "distance between images of the same class. Even perfectly separable classes can have a value "
    "near 1. The fraction of nearest neighbours of the same class measures separability more "
    "directly. Both values are computed from the features, not from the map."
)


def build(setup: PageSetup) -> None:
    gr.Markdown(SIMILAR_IMAGES_INTRO)
    with gr.Row(elem_classes="vd-filters"):
        setup.controls.add(keys.FEATURES_MODEL, RunChoice, group_runs(setup.context.trained_runs()))
        setup.controls.add(keys.TSNE_IMAGES, gr.Slider)
    add_view(MAPS_VIEW, elem_id="tsne")
    add_view(NEIGHBOURS_VIEW, elem_id="near")
    with gr.Accordion("About", open=False, elem_classes="vd-about"):
        gr.Markdown(ABOUT_MAPS)


@needs(keys.FEATURES_MODEL, keys.TSNE_IMAGES)
def maps_payload(context: AppContext, state: ViewState) -> ViewData:
    """Return the maps if they are in the cache or stored, and the models to choose from."""
    context.open_dataset()
    run, count = read_run(context, state), read_count(state)
    planes = find_cached_planes(context, run, count) or find_stored_planes(context, run, count)
    menu = describe_run_choices(
        context.trained_runs(), run.name if run else "", state[keys.FEATURES_MODEL]
    )
    data = planes_to_payload(context, run, planes) if planes else describe_time(context, run, state)
    return ViewData(data, {keys.FEATURES_MODEL.name: menu})


def find_stored_planes(
    context: AppContext, run: Run | None, count: int
) -> list[EmbeddingPlane] | None:
    """Return the maps in the folder of the run; these have the largest sample."""
    if run is None or count != MAX_SAMPLE_SIZE:
        return None
    return context.cache.call(read_planes, run, load_sample(context, count))


def describe_time(context: AppContext, run: Run | None, state: ViewState) -> dict:
    """Return the payload before the maps are computed, with the estimated computing time."""
    speed = measure_in_background(context, run)
    if speed is None:
        return {"message": MEASURING_MESSAGE, "is_measuring": True}
    seconds = speed.estimate_seconds(
        min(read_count(state), len(load_sample(context, MAX_SAMPLE_SIZE)))
    )
    return {"message": NO_MAP_MESSAGE.format(time=format_time(seconds)), "is_measuring": False}


@needs(keys.IMAGE, keys.FEATURES_MODEL)
def neighbours_payload(context: AppContext, state: ViewState) -> dict:
    """Return the nearest neighbours of the current image if the features are in the cache."""
    context.open_dataset()
    run = read_run(context, state)
    if not has_feature_space(context, run):
        return {"blocks": []}
    found = find_neighbours(context, run, load_square(context, state.image))
    name = run.name if run else PIXEL_SPACE
    blocks = document_payload(neighbour_blocks(name, *found))
    return {"blocks": blocks, "open": opening(context, run)}


def compute_maps(context: AppContext, state: ViewState, report: Report) -> None:
    """Compute the t-SNE maps. A task of the bridge."""
    run, count = read_run(context, state), read_count(state)
    load_planes(context, run, count, report_progress(report))


def compute_neighbours(context: AppContext, state: ViewState, report: Report) -> None:
    """Compute the features that are needed to find neighbours. A task of the bridge."""
    load_square(context, state.image)  # an `ImageError` must come before the slow part
    load_feature_space(context, read_run(context, state), report=report_progress(report))


FEATURE = Feature(
    payloads={MAPS_VIEW: maps_payload, NEIGHBOURS_VIEW: neighbours_payload},
    tasks={MAPS_VIEW: compute_maps, NEIGHBOURS_VIEW: compute_neighbours},
)


def read_run(context: AppContext, state: ViewState) -> Run | None:
    """Return the run whose features are chosen, or None (raw pixels) if there are no runs."""
    runs = context.trained_runs()
    name = choose_run(runs, state[keys.FEATURES_MODEL])
    return next((run for run in runs if run.name == name), None)


def read_count(state: ViewState) -> int:
    return round(state[keys.TSNE_IMAGES])


def report_progress(report: Report) -> ProgressReport:
    """Return a function that reports the progress of the thread that calls this function.

    Two threads compute the maps, but the page shows one line. Calls from the other thread repeat
    the line, so that a cancellation also stops this thread. Without a fraction, the line counts
    seconds.
    """
    started, own = time.monotonic(), threading.get_ident()
    latest: tuple[float | None, str] = None, "Loading test images"

    def step(fraction: float | None, description: str) -> None:
        nonlocal latest
        if threading.get_ident() == own:
            latest = fraction, description
        share, text = latest
        done = round(time.monotonic() - started if share is None else 100 * share)
        report(done, 0 if share is None else 100, text)

    return step


def opening(context: AppContext, run: Run | None) -> dict:
    """Return the arguments of `store.openImage`, with the prefix of the image's source."""
    return {"source": TEST_PREFIX, **describe_opening(context, run.name if run else None)}


def planes_to_payload(
    context: AppContext, run: Run | None, planes: Sequence[EmbeddingPlane]
) -> dict:
    """Return the payload of t-SNE maps of the same images; see the module docstring."""
    sample = planes[0].sample
    return {
        "classes": list(sample.source.classes),
        "numbers": sample.indices.tolist(),
        "labels": sample.labels.tolist(),
        "sheet": ImageFile(tile_images(sample.thumbnails, THUMBNAIL_COLUMNS), exact=False),
        "columns": THUMBNAIL_COLUMNS,
        "planes": [
            {"name": plane.name, "places": round_numbers(plane.places, PLACE_DIGITS)}
            for plane in planes
        ],
        "separation": document_payload(separation_blocks(planes)),
        "open": opening(context, run),
    }


def separation_blocks(planes: Sequence[EmbeddingPlane]) -> list[DocumentBlock]:
    """Return a table of the class separation in each feature space."""
    rows = [
        (
            plane.name,
            f"{plane.dimension:,}",
            DASH if math.isnan(plane.distance_ratio) else f"{plane.distance_ratio:.3f}",
            DASH if math.isnan(plane.purity) else f"{100 * plane.purity:.1f}%",
        )
        for plane in planes
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
        Text(
            f"The most similar of {len(sample):,} test images to the image in Explore, by cosine "
            "similarity of the features."
        ),
        ImageRow(items, concatenate_images(sample.thumbnails[places])),
    ]
