"""The part "Activation patching": tokens of image 1 are replaced by tokens of a second image.

The payload of the images:

    {"run": str, "layers": L, "grid": [rows, columns], "special": [names of special tokens],
     "images": [file, file], "source": source of image 2, "options": [[source, title], ...],
     "predicted": [class, class], "probabilities": [of image 1, of image 2],
     "classes": the two classes of the logit difference, "has_change": whether it differs}

The payload of the maps and curves. `result` is None if it is not in the cache; a task computes it:

    {"run": str, "layers": L, "classes": as above,
     "is_quick": whether the task takes only seconds, so that the browser starts it,
     "result": {"side": patches per side of a group, "maps": (L+1, rows, columns),
                "curves": {name: (L+1)}, "random": (L+1), of half of the patches} or None}

The payload of the prediction with the replaced tokens. `random` contains mean, minimum and maximum
of the shares of as many random patches, or is None:

    {"run": str, "layer": int, "tokens": see `name_tokens`, "share": float, "draws": int,
     "random": [mean, low, high] or None, "predicted": [class before, class after],
     "classes": [names], "before": [probabilities], "now": [probabilities]}

Letters: L layers, C classes, p special tokens, P patches.
"""

import re
from collections.abc import Sequence

import gradio as gr
import numpy as np

from vitdemo.analyses.activation_patching import (
    RANDOM_DRAWS,
    ImagePair,
    PatchedPrediction,
    PatchingResult,
    choose_other_photo,
    compute_patching,
    find_cached_patching,
    load_image_pair,
    patch_image,
)
from vitdemo.context import AppContext
from vitdemo.data.photos import name_of
from vitdemo.errors import ImageError, VitdemoError
from vitdemo.metrics import top_k_classes
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import ImageFile, add_view, is_quick, load_square, round_numbers
from vitdemo.page.explore.prediction_change import PROBABILITY_DIGITS
from vitdemo.page.feature import Feature, PageSetup, Report
from vitdemo.page.image_sources import (
    PHOTO_PREFIX,
    USER_PHOTO,
    ImageRequest,
    list_photos,
    parse_test_source,
)
from vitdemo.page.view_state import ViewState, needs
from vitdemo.runs import Run

IMAGES_VIEW, PREDICTION_VIEW = "patching.images", "patching.prediction"
MAPS_VIEW = "patching.maps"  # also the name of its task
ALL_PATCHES = "patches"  # token code of all patches
MAX_CLASSES = 4  # classes of the prediction, without a new predicted class
DIGITS = 4  # decimals of shares
PAIR_NEEDS = (keys.IMAGE, keys.MODEL, keys.PATCHING_IMAGE)


def build(setup: PageSetup) -> None:
    """Lay out the images with the prediction below them, next to the maps and curves."""
    with gr.Row():
        with gr.Column(scale=2, min_width=300):
            add_view(IMAGES_VIEW, elem_id="patching-images")
            add_view(PREDICTION_VIEW, elem_id="patching-prediction")
        with gr.Column(scale=3, min_width=300):
            add_view(MAPS_VIEW, elem_id="patching-maps")


@needs(*PAIR_NEEDS)
def images_payload(context: AppContext, state: ViewState) -> dict:
    pair, source = load_pair(context, state)
    probabilities = np.array([max(each) for each in pair.probabilities])
    return {
        "run": pair.run.name,
        "layers": pair.first.num_layers,
        "grid": list(pair.first.grid),
        "special": list(pair.first.prefix_names),
        "images": [ImageFile(trace.input_image) for trace in (pair.first, pair.second)],
        "source": source,
        "options": list_options(state, source),
        "predicted": name_classes(pair.run, pair.predicted),
        "probabilities": round_numbers(probabilities, DIGITS),
        "classes": name_classes(pair.run, pair.classes),
        "has_change": pair.has_change,
    }


@needs(*PAIR_NEEDS)
def maps_payload(context: AppContext, state: ViewState) -> dict:
    pair, _ = load_pair(context, state)
    result = find_cached_patching(context, pair)
    return {
        "run": pair.run.name,
        "layers": pair.first.num_layers,
        "classes": name_classes(pair.run, pair.classes),
        "is_quick": is_quick(context, pair.run),
        "result": result and describe_result(result),
    }


@needs(*PAIR_NEEDS, keys.PATCHING_LAYER, keys.PATCHED_TOKENS)
def prediction_payload(context: AppContext, state: ViewState) -> dict:
    pair, _ = load_pair(context, state)
    trace = pair.first
    tokens = parse_tokens(state[keys.PATCHED_TOKENS], trace.num_prefix_tokens, trace.grid)
    layer = min(round(state[keys.PATCHING_LAYER]), trace.num_layers) if tokens else 0
    return describe_prediction(pair, patch_image(context, pair, layer, tokens))


def compute_maps(context: AppContext, state: ViewState, report: Report) -> None:
    """Compute maps and curves, which are then in the cache."""
    pair, _ = load_pair(context, state)
    compute_patching(context, pair, lambda done, total: report(done, total, "Replacing tokens"))


FEATURE = Feature(
    payloads={
        IMAGES_VIEW: images_payload,
        PREDICTION_VIEW: prediction_payload,
        MAPS_VIEW: maps_payload,
    },
    tasks={MAPS_VIEW: compute_maps},
)


def load_pair(context: AppContext, state: ViewState) -> tuple[ImagePair, str]:
    """Return the pair of images of the state, and the source of image 2. Raises `VitdemoError`."""
    run, first = context.find_run(state.model), load_square(context, state.image)
    source = state[keys.PATCHING_IMAGE]
    try:
        if source not in list_photos() and not parse_test_source(source):
            raise ImageError("There is no such image.")
        second = load_square(context, ImageRequest(source))
    except VitdemoError:  # nothing is chosen, or the image of an old link does not exist
        file = choose_other_photo(context, run, first)
        source = next(each for each, path in list_photos().items() if path == file)
        second = load_square(context, ImageRequest(source))
    return load_image_pair(context, run, first, second), source


def list_options(state: ViewState, source: str) -> list[list[str]]:
    """Return source and title of the photos, of image 2, and of image 1 to be used as image 2."""
    options = {key: name_of(file) for key, file in list_photos().items()}
    own = state.image.source
    if source not in options:
        options[source] = describe_source(source)
    if own != USER_PHOTO and own not in options:
        options[own] = f"{describe_source(own)} (image 1)"
    return [list(each) for each in options.items()]


def describe_source(source: str) -> str:
    number, _ = parse_test_source(source) or (None, "")
    return source.removeprefix(PHOTO_PREFIX) if number is None else f"test image {number}"


def name_classes(run: Run, indices: Sequence[int]) -> list[str]:
    return [run.classes[i] for i in indices]


def describe_result(result: PatchingResult) -> dict:
    curves = {name: round_numbers(each, DIGITS) for name, each in result.curves.items()}
    return {
        "side": result.side,
        "maps": round_numbers(result.maps, DIGITS),
        "curves": curves,
        "random": round_numbers(result.random.mean(axis=1), DIGITS),
    }


def parse_tokens(text: str, p: int, grid: tuple[int, int]) -> list[int]:
    """Parse tokens such as "t0 3,4" (see `PATCHED_TOKENS`); ignore tokens that do not exist."""
    rows, columns = grid
    tokens = set()
    for code in text.split():
        if code == ALL_PATCHES:
            tokens |= set(range(p, p + rows * columns))
        elif (found := re.fullmatch(r"t(\d{1,4})", code, re.ASCII)) and int(found[1]) < p:
            tokens.add(int(found[1]))
        elif found := re.fullmatch(r"(\d{1,4}),(\d{1,4})", code, re.ASCII):
            row, column = (int(number) - 1 for number in found.groups())
            if 0 <= row < rows and 0 <= column < columns:
                tokens.add(p + row * columns + column)
    return sorted(tokens)


def describe_prediction(pair: ImagePair, found: PatchedPrediction) -> dict:
    """Compare the predictions for image 1 without and with the replaced tokens."""
    classes, random = pair.run.classes, found.random
    before, start = pair.probabilities[0], pair.predicted[0]
    now = int(found.probabilities.argmax())
    shown = top_k_classes(before, min(MAX_CLASSES, len(classes)))[0].tolist()
    shown += [each for each in dict.fromkeys([now, *pair.classes]) if each not in shown]
    return {
        "run": pair.run.name,
        "layer": found.layer,
        "tokens": name_tokens(pair, found.tokens),
        "share": round(found.share, DIGITS),
        "draws": RANDOM_DRAWS,
        "random": round_numbers(np.array([np.mean(random), min(random), max(random)]), DIGITS)
        if random
        else None,
        "predicted": name_classes(pair.run, [start, now]),
        "classes": [classes[c] for c in shown],
        "before": round_numbers(before[shown], PROBABILITY_DIGITS),
        "now": round_numbers(found.probabilities[shown], PROBABILITY_DIGITS),
    }


def name_tokens(pair: ImagePair, tokens: Sequence[int]) -> dict:
    """Return names of special tokens, the number of patches, and the number of all patches."""
    names, (rows, columns) = pair.first.prefix_names, pair.first.grid
    special = [names[token] for token in tokens if token < len(names)]
    return {"special": special, "patches": len(tokens) - len(special), "all": rows * columns}
