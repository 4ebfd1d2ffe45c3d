"""The part "Similar patches": colours of patches by layer, and similar patches of test images.

The payload of the colours contains all layers, so another layer needs no request. `colours` are
red, green and blue, 0 to 1, of the image and then of the example photos. `ratios` are the fractions
of the variance that the three components explain:

    {"run": str, "layers": L, "grid": [rows, columns], "seen": file, "photos": [names],
     "sheet": file of all photos side by side, "colours": file (L, 1 + photos, P, 3), "ratios": (L)}

The payload of the similar patches. `found` is None if no patch is chosen, or if the index of the
layer is not in the cache; a task computes the index:

    {"run": str, "layer": int, "patch": [row, column] or None, "grid": [rows, columns],
     "images": number of test images, "is_quick": whether the browser starts the task,
     "found": [{"number", "label", "cosine", "patch": [row, column]}, ...] or None,
     "sheet": file of all found images side by side, "open": see `similar_images`}

Letters: L layers, P patches. Rows, columns and layers count from 1.
"""

import re

import gradio as gr
import numpy as np
import torch
from torch import Tensor

from vitdemo.analyses.patch_similarity import (
    PatchIndex,
    build_patch_index,
    count_index_images,
    find_patch_index,
    get_patch_tokens,
    load_photo_colours,
)
from vitdemo.context import AppContext
from vitdemo.data.photos import example_files, load_example_squares, name_of
from vitdemo.documents.images import concatenate_images
from vitdemo.explain.checks import require_attention, require_finite, to_numpy
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.explain.patch_components import colour_patches
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import (
    ImageFile,
    add_view,
    choose_layer,
    fill,
    is_quick,
    load_trace,
    round_numbers,
)
from vitdemo.page.explore.tab import describe_opening
from vitdemo.page.feature import Feature, PageSetup, Report
from vitdemo.page.graph import Graph, Matrices, Outputs, Pixels, trace_crop
from vitdemo.page.image_sources import TEST_PREFIX, parse_test_source
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import Run

COLOURS_VIEW = "patch_colours"
PATCHES_VIEW = "similar_patches"  # also the name of its task
MAX_QUICK_SIDE = 64  # pixels of the input: the index of larger inputs takes a minute on two cores
MAX_SHOWN_SIDE = 96  # pixels of a found image
DIGITS = 3
PATCH_NEEDS = (keys.IMAGE, keys.MODEL, keys.LAYER, keys.SIMILAR_PATCH)


def build(setup: PageSetup) -> None:
    """Lay out the colours next to the similar patches."""
    with gr.Row():
        with gr.Column(scale=3, min_width=300):
            add_view(COLOURS_VIEW, elem_id="patch-colours")
        with gr.Column(scale=2, min_width=300):
            add_view(PATCHES_VIEW, elem_id="similar-patches")


@needs(keys.IMAGE, keys.MODEL)
@torch.inference_mode()
def colours_payload(context: AppContext, state: ViewState) -> dict:
    run = context.find_run(state.model)
    trace = load_trace(context, state)
    require_finite(run, to_numpy(trace.tokens[-1]))
    axes, _ = load_photo_colours(context, run)
    squares = context.cache.call(load_example_squares)
    crops = np.stack([context.prepare_input(run.preprocessing, each)[0] for each in squares])
    data = {
        "run": run.name,
        "layers": trace.num_layers,
        "grid": list(trace.grid),
        "photos": [name_of(file) for file in example_files()],
        "sheet": ImageFile(concatenate_images(crops), exact=False),
        "ratios": round_numbers(axes.ratios.sum(1).numpy(), DIGITS),
    }
    crop = torch.from_numpy(trace.input_image).permute(2, 0, 1)
    return fill(data, describe_colours(context, trace, crop))


def compute_outputs(context: AppContext, run: Run, state: ViewState, crop: Tensor) -> Outputs:
    """Compute the data of the colours that depend on the image: see `page.graph`."""
    require_attention(run, context.load_model(run))
    return describe_colours(context, trace_crop(context, run, crop), crop)


def describe_colours(context: AppContext, trace: ImageTrace, crop: Tensor) -> Outputs:
    axes, photos = load_photo_colours(context, trace.run)
    own = colour_patches(axes, get_patch_tokens(trace))  # (L, P, 3)
    return {
        "seen": Pixels(crop),
        "colours": Matrices(torch.cat([own[:, None], photos.to(own)], dim=1)),
    }


@needs(*PATCH_NEEDS)
def patches_payload(context: AppContext, state: ViewState) -> dict:
    context.open_dataset()
    run, trace = context.find_run(state.model), load_trace(context, state)
    require_finite(run, to_numpy(trace.tokens[-1]))
    layer = choose_layer(context, state, run)
    patch = parse_patch(state[keys.SIMILAR_PATCH], trace.grid)
    index = find_patch_index(context, run, layer)
    test_images = min(count_index_images(context, run), context.count_test_images())
    is_small = run.preprocessing.size <= MAX_QUICK_SIDE
    data = {
        "run": run.name,
        "layer": layer,
        "patch": patch,
        "grid": list(trace.grid),
        "images": test_images,
        "is_quick": is_small and is_quick(context, run),
        "found": None,
        "open": {"source": TEST_PREFIX, **describe_opening(context, run.name)},
    }
    if patch and index:
        data |= find_patches(index, trace, layer, patch, state)
    return data


def compute_index(context: AppContext, state: ViewState, report: Report) -> None:
    """Compute the patch tokens of the test images after the chosen layer. A task of the bridge."""
    run = context.find_run(state.model)
    layer = choose_layer(context, state, run)
    text = f"Computing patch tokens of layer {layer}"
    build_patch_index(context, run, layer, lambda done, total: report(done, total, text))


FEATURE = Feature(
    payloads={COLOURS_VIEW: colours_payload, PATCHES_VIEW: patches_payload},
    tasks={PATCHES_VIEW: compute_index},
    graphs={COLOURS_VIEW: Graph(compute_outputs)},
)


def parse_patch(text: str, grid: tuple[int, int]) -> list[int] | None:
    """Parse "row,column", from 1. Return None for another text, or a patch outside the grid."""
    found = re.fullmatch(r"(\d{1,4}),(\d{1,4})", text, re.ASCII)
    place = [int(number) for number in found.groups()] if found else [0, 0]
    is_inside = all(1 <= at <= count for at, count in zip(place, grid, strict=True))
    return place if is_inside else None


def find_patches(
    index: PatchIndex, trace: ImageTrace, layer: int, patch: list[int], state: ViewState
) -> dict:
    """Return the fields `found` and `sheet` of the payload, without the image itself."""
    (row, column), columns = patch, trace.grid[1]
    token = get_patch_tokens(trace)[layer - 1, (row - 1) * columns + column - 1]
    number, test_set = parse_test_source(state.image.source) or (None, "")
    found = index.find_similar(token, excluded=None if test_set else number)
    sample, places = index.sample, [place for place, _, _ in found]
    chosen = torch.from_numpy(sample.indices[places])
    side = min(trace.run.spec.image_size, MAX_SHOWN_SIDE)
    images = sample.source.load_subset("test", chosen, side).images.permute(0, 2, 3, 1)
    described = [
        {
            "number": int(sample.indices[place]),
            "label": sample.source.classes[sample.labels[place]],
            "cosine": round(cosine, DIGITS),
            "patch": [p // columns + 1, p % columns + 1],
        }
        for place, p, cosine in found
    ]
    sheet = ImageFile(concatenate_images(images.numpy()), exact=False) if found else None
    return {"found": described, "sheet": sheet}
