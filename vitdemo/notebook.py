"""Explore a Vision Transformer in a notebook: the attention view of the page, without a server.

    import vitdemo

    view = vitdemo.explore("vit-scratch", "cat.jpg")
    view                  # the interactive view, in Jupyter
    view.save("cat.html")  # the same view as a file that needs no network

`trace`, `rollout`, `attribute`, `map_checks`, `faithfulness`, `best_order`, `fewest_patches`,
`patching`, `sinks` and `patch_colours` return results for the same model and image. `ground_truth`
tests maps on images whose correct map is known. The `model` is the name of an included model, the
folder of a run, or an address as in docs/models-and-api.md. The `image` is a file, a Pillow image,
or an array (height, width, 3) uint8.

Letters: L layers, H heads, N tokens.
"""

import functools
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from vitdemo.analyses.activation_patching import (
    PatchingResult,
    compute_patching,
    load_image_pair,
)
from vitdemo.analyses.class_attribution import (
    ClassAttribution,
    FaithfulnessResult,
    FaithfulnessScore,
    compute_class_attribution,
    find_best_order,
    measure_faithfulness,
)
from vitdemo.analyses.fewest_patches import search_fewest_patches
from vitdemo.analyses.ground_truth import ShareSummary, measure_shares
from vitdemo.analyses.patch_similarity import colour_images
from vitdemo.analyses.perturbation import make_canvas
from vitdemo.analyses.sinks import SinkSummary, compute_sinks
from vitdemo.context import AppContext
from vitdemo.data.ground_truth import TASKS, get_task
from vitdemo.data.image_files import convert_image, crop_visible_square, load_image
from vitdemo.errors import ImageError
from vitdemo.explain.faithfulness.sanity import MapCheck
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.explain.removal_search import RemovalSearch
from vitdemo.installation import included_folder
from vitdemo.runs import CONFIG_FILE, Run, read_run
from vitdemo.runs.opened_model import add_timm_prefix, create_model_run
from vitdemo.training import choose_device

FRAME_HEIGHT = 760  # pixels
ImageSource = str | os.PathLike | Image.Image | np.ndarray


@dataclass(frozen=True, eq=False)
class Exploration:
    """The attention view of one image and model as an HTML page; Jupyter draws it."""

    html: str
    height: int = FRAME_HEIGHT  # height of the frame in pixels

    def _repr_html_(self) -> str:
        from vitdemo.page.saved_view.html import build_frame  # imports gradio

        return build_frame(self.html, self.height)

    def save(self, path: str | os.PathLike) -> Path:
        Path(path).write_text(self.html, encoding="utf-8")
        return Path(path)


def explore(model: str, image: ImageSource, *, height: int = FRAME_HEIGHT) -> Exploration:
    """Return the interactive attention view of `image`. Raises `VitdemoError`.

    `height` is the height of the frame in the notebook, in pixels.
    """
    from vitdemo.page.saved_view.html import build_saved_view  # imports gradio
    from vitdemo.page.view_state import ViewState

    context, run = get_context(), find_model(model)
    state = ViewState(None, run.name)
    return Exploration(build_saved_view(context, run, read_image(image), state), height)


def trace(model: str, image: ImageSource) -> ImageTrace:
    """Return attention (L, H, N, N), tokens (L+1, N, D) and logits. Raises `VitdemoError`."""
    return get_context().trace_image(find_model(model), read_image(image))


def rollout(
    model: str,
    image: ImageSource,
    layer: int | None = None,
    *,
    fusion: str = "mean",
    discard_ratio: float = 0.0,
) -> np.ndarray:
    """Return the attention rollout (rows, columns) up to `layer` (1 to L, default L).

    `fusion` combines the heads: "mean", "max" or "min". The fraction `discard_ratio` of the
    smallest weights is discarded. Source: Abnar and Zuidema 2020, https://arxiv.org/abs/2005.00928.
    Raises `VitdemoError`, and `ValueError` for an invalid setting.
    """
    found = trace(model, image)
    layer = found.num_layers if layer is None else layer
    if not 1 <= layer <= found.num_layers:
        raise ValueError(f"layer must be 1 to {found.num_layers}, not {layer}.")
    return found.rollout_map(layer, fusion=fusion, discard_ratio=discard_ratio)


def attribute(
    model: str, image: ImageSource, target: str | None = None, against: str | None = None
) -> dict[str, np.ndarray]:
    """Return the attribution maps (rows, columns) by the name of their method.

    The maps are for the class `target` (default: the predicted class), or for its contrast with
    the class `against`. Raises `RunError` for an unknown class.
    """
    return {
        each.method.name: each.values
        for each in _compute_attribution(model, image, target, against).maps
    }


def faithfulness(
    model: str, image: ImageSource, target: str | None = None, *, fill: str | None = None
) -> dict[str, FaithfulnessScore]:
    """Run the faithfulness test of the page on each map, the centre-first order and the edge map.

    A result has `score` (the insertion area minus the deletion area), `p_orders` (p-value against
    random orders), `p_shape` (p-value against transformed copies) and `verdict`. A removed patch is
    replaced by `fill`: see `vitdemo.explain.faithfulness.FILLS` (default: as on the page). Slow
    maps take some seconds each. Raises `RunError` for an unknown class or an unsupported `fill`.
    """
    found = _compute_attribution(model, image, target, None)
    fill = found.fills[0] if fill is None else fill
    return measure_faithfulness(get_context(), found, read_image(image), fill=fill).scores


def map_checks(model: str, image: ImageSource, target: str | None = None) -> dict[str, MapCheck]:
    """Run the sanity checks of the page's *Details* on each fast map of the class `target`.

    A result has `noise_ceiling`, `runner_up` and `cascade_means`: mean rank correlations of the map
    with maps of images with slightly changed grey levels, with the map of the runner-up class, and
    with maps of models whose last `layers` are random. See `vitdemo.explain.faithfulness.sanity`.
    Raises `RunError` for an unknown class.
    """
    run = find_model(model)
    found = compute_class_attribution(
        get_context(), run, read_image(image), target=target, include_slow=False
    )
    return {each.method.name: each.check for each in found.maps if each.check}


def best_order(
    model: str, image: ImageSource, target: str | None = None, *, fill: str | None = None
) -> FaithfulnessResult:
    """Search for the order of patches with the highest score of the test of `faithfulness`.

    `best_ranks` (rows, columns) is the position of each patch in the best order found, from 0. A
    better order may exist. `compute_share("relevance")` is the score of a map between the mean of
    random orders (0) and the best order found (1). Arguments and errors are as in `faithfulness`.
    """
    found = _compute_attribution(model, image, target, None)
    fill = found.fills[0] if fill is None else fill
    return find_best_order(get_context(), found, read_image(image), fill=fill)


def fewest_patches(model: str, image: ImageSource, grid: tuple[int, int] = (8, 8)) -> RemovalSearch:
    """Search for few patches of `grid` (rows, columns) without which the predicted class changes.

    If `is_met` is true, the class changes without the patches in `order`, counted from 0 in reading
    order. As in *Fool the model*, removed patches have the image's mean colour. Raises `RunError`
    for a model with fewer than two classes.
    """
    context, square = get_context(), read_image(image)
    canvas = make_canvas(context, square)
    return search_fewest_patches(context, find_model(model), square, canvas, grid)[1]


def patching(model: str, image: ImageSource, other: ImageSource) -> PatchingResult:
    """Replace tokens of `image` by tokens of `other` after each layer, 0 to L.

    A share is 0 if the difference of the logits of the two predicted classes is as for `image`, and
    1 if it is as for `other`. `curves` contains the shares (L+1,) for the class token, for all
    special tokens and for all patches, `random` those for random halves of the patches, and `maps`
    (L+1, rows, columns) those for single patches, or for groups of `side` x `side` patches. Raises
    `RunError` for a model without attention or with fewer than two classes.
    """
    context = get_context()
    pair = load_image_pair(context, find_model(model), read_image(image), read_image(other))
    return compute_patching(context, pair)


def sinks(model: str, image: ImageSource) -> SinkSummary:
    """Find the most attended patch of each head, and measure the content of its value vector.

    `weights` (L, H) is the mean attention of all queries to this patch, and `positions` (L, H, 2)
    its row and column, from 1. `norm_ratios` (L, H) is the norm of its value, divided by the mean
    norm of all patches. `similarities.sinks` (L, H) is the mean cosine similarity of this value
    between the example photos, and `similarities.patches` (L, H) that of all pairs of patches.
    Raises `RunError` for a model without attention.
    """
    return compute_sinks(get_context(), find_model(model), read_image(image))


def ground_truth(task: str, images: int = 20) -> ShareSummary:
    """Measure each attribution method on `images` ground truth images of a task.

    The class of these images depends only on planted marks. The task is "one-mark" or "two-marks".
    `shares` contains, by method, the mean fraction of a map's positive weight on the marks, with a
    95% bootstrap interval over the images. A uniform map has the fraction `chance`. The result for
    200 images is in benchmarks/LOG.md. Raises `ValueError` for an unknown task and for fewer than
    two images.
    """
    return measure_shares(get_context(), get_context().find_run(get_task(task).name), images)


def patch_colours(model: str, *images: ImageSource) -> list[np.ndarray]:
    """Return the colours (L, rows, columns, 3), 0 to 1, of the patches of each image, by layer.

    Red, green and blue are the first three principal components of the patch tokens of all
    `images` together, so patches with similar tokens have similar colours in all of them. The page
    uses the components of the example photos instead. See `vitdemo.explain.patch_components`.
    Raises `RunError` for a model without attention or with NaN, and `ImageError` without an image.
    """
    if not images:
        raise ImageError("`patch_colours` needs at least one image.")
    context, run = get_context(), find_model(model)
    squares = [read_image(each) for each in images]
    grid = context.trace_image(run, squares[0]).grid
    _, colours = colour_images(context, run, squares)  # (L, n, P, 3)
    return [each.unflatten(1, grid).cpu().numpy() for each in colours.unbind(1)]


def _compute_attribution(
    model: str, image: ImageSource, target: str | None, against: str | None
) -> ClassAttribution:
    run = find_model(model)
    return compute_class_attribution(
        get_context(), run, read_image(image), target=target, against=against
    )


@functools.cache
def get_context() -> AppContext:
    """Return the context of all calls: included models, default data folder, best device."""
    return AppContext(
        [included_folder("runs")],
        None,
        choose_device("auto"),
        ground_truth_root=included_folder("ground_truth"),
    )


def find_model(model: str | os.PathLike) -> Run:
    """Return the run of an included model, a run folder, or an address. Raises `VitdemoError`."""
    context = get_context()
    if (Path(model) / CONFIG_FILE).is_file():
        return read_run(model)
    if str(model) in [run.name for run in context.list_runs()[0]] or str(model) in TASKS:
        return context.find_run(str(model))
    return _open_once(add_timm_prefix(str(model)))


@functools.cache
def _open_once(address: str) -> Run:
    return create_model_run(address)


def read_image(image: ImageSource) -> Image.Image:
    """Return the square RGB image that models receive. Raises `ImageError`."""
    if isinstance(image, np.ndarray):
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
            raise ImageError(
                f"An array must be (height, width, 3) uint8, not {image.shape} {image.dtype}."
            )
        image = Image.fromarray(image)
    loaded = convert_image(image) if isinstance(image, Image.Image) else load_image(image)
    return crop_visible_square(loaded)
