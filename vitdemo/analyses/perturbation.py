"""Predictions of all models before and after a change of the image, and rankings of patches.

    original = make_canvas(context, image)
    changed = apply_changes(original, ImageChanges(pieces=4))
    changes, problems = predict_changes(context, original, changed)

The image is changed before any model's preprocessing, so all models receive the same image.
Letters: L layers, H heads, C classes, P patches.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from vitdemo.analyses.class_attribution import compute_class_attribution, list_fast_methods
from vitdemo.context import AppContext
from vitdemo.data import image_files
from vitdemo.data.perturb.changes import PIECE_CHOICES
from vitdemo.explain import norms
from vitdemo.explain.attention import rollout_steps
from vitdemo.explain.attributions import AttributionMethod, compute_ranking_values
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.runs import Run

NORM_SOURCES = ("norm", "norm-head")
# The canvas side is a multiple of this number, and therefore of every number in `PIECE_CHOICES`.
CANVAS_MULTIPLE = PIECE_CHOICES[-1]


@dataclass(frozen=True)
class PredictionChange:
    """Class probabilities (C,) of one model before and after the change of the image."""

    run: Run
    before: np.ndarray
    after: np.ndarray

    @property
    def class_before(self) -> str:
        return self.run.classes[int(self.before.argmax())]

    @property
    def class_after(self) -> str:
        return self.run.classes[int(self.after.argmax())]


def get_canvas_side(context: AppContext, side: float = math.inf) -> int:
    """Return the side of the canvas for an image of `side` pixels."""
    largest = max((run.preprocessing.size for run in context.trained_runs()), default=32)
    return -(-max(min(side, largest), 32) // CANVAS_MULTIPLE) * CANVAS_MULTIPLE


def make_canvas(context: AppContext, image: Image.Image) -> Image.Image:
    """Return the square RGB image that `apply_changes` receives; the result is cached.

    Its side is at most the side of the largest model input, rounded up to a multiple of
    `CANVAS_MULTIPLE`. An image that already has this side, such as a CIFAR-10 image, is unchanged.
    """
    side = get_canvas_side(context, min(image.size))
    if image.size == (side, side):
        return image
    return context.cache.call(image_files.crop_and_resize, image, side)


def predict_changes(
    context: AppContext,
    before: Image.Image,
    after: Image.Image,
    chosen_runs: Sequence[Run] | None = None,
) -> tuple[list[PredictionChange], list[str]]:
    """Return predictions before and after a change, and a message for each failed model.

    The models are `chosen_runs`, or all trained models that have classes.
    """
    first, problems = context.predict_all(before, chosen_runs)
    then = {answer.run.name: answer for answer in context.predict_all(after, chosen_runs)[0]}
    found = [
        PredictionChange(answer.run, answer.probabilities, then[answer.run.name].probabilities)
        for answer in first
        if answer.run.name in then
    ]
    return found, problems


def patch_grid(context: AppContext, run: Run) -> tuple[int, int]:
    """Return the model's patch grid (rows, columns); 8 x 8 for a convolutional model."""
    model = context.load_model(run)
    return tuple(model.patch_embed.grid_size) if context.count_layers(run) else (8, 8)


def compute_ranking_maps(trace: ImageTrace) -> dict[str, np.ndarray]:
    """Return the maps (L, rows, columns) that rank patches, one per layer.

    "mean" is the mean of the heads in the layer, "rollout" the rollout up to the layer.
    """
    found = {source: select_matrices(trace, source) for source in ("mean", "rollout")}
    return {source: trace.classifier_maps(matrices) for source, matrices in found.items()}


def compute_maps_of_source(
    context: AppContext, trace: ImageTrace, source: str, head: int = 1
) -> np.ndarray:
    """Return the maps (L, rows, columns) of all layers that the section Attention calls `source`.

    See `select_matrices` for `source` and `head`. Raises `RunError` for norm-weighted attention of
    an unsupported model.
    """
    products = context.value_products(trace) if source in NORM_SOURCES else None
    return trace.classifier_maps(select_matrices(trace, source, torch.tensor(head), products))


def select_matrices(
    trace: ImageTrace, source: str, head: Tensor | None = None, products: Tensor | None = None
) -> Tensor:
    """Return the matrices (L, N, N) of all layers that the section Attention calls `source`.

    `source` is "mean", "rollout", "head", "norm" (norm-weighted, all heads) or "norm-head". `head`
    (), from 1, is clamped to the model's heads. `products` are the value products of the sources
    `NORM_SOURCES`. No values are read, so the function can be recorded as a graph.
    """
    weights = trace.attention  # (L, H, N, N)
    if source == "mean":
        return weights.mean(1)
    if source == "rollout":
        options = {"num_prefix_tokens": trace.num_prefix_tokens}
        return rollout_steps(weights[:, None], **options)[:, 0]
    if source == "norm":
        return norms.norms_to_weights(norms.summed_head_norms(weights, products))
    if source == "norm-head":
        weights = norms.norms_to_weights(norms.head_norms(weights, products))
    index = head.round().long().clamp(1, weights.shape[1]) - 1
    return weights.index_select(1, index.view(1).to(weights.device))[:, 0]


def compute_ranked_map(
    context: AppContext, run: Run, image: Image.Image
) -> tuple[AttributionMethod, np.ndarray]:
    """Return the fast map with the highest mean score for the predicted class, without ties.

    The map is (rows, columns). Raises `RunError` for a model without classes.
    """
    method = list_fast_methods(context, run)[0]
    found = compute_class_attribution(context, run, image, include_slow=False)
    best = next(each for each in found.maps if each.method is method)
    model, (_, pixels) = context.load_model(run), context.prepare_input(run.preprocessing, image)
    values = torch.from_numpy(best.values)[None]
    ranking = compute_ranking_values(best.method.name, model, pixels, values, found.target)
    return best.method, ranking[0].float().cpu().numpy()


def rank_patches(maps: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """Return the patches (L, P) of `grid` in decreasing order of `maps` (L, rows, columns).

    If `grid` is different from the grid of the maps, the maps are averaged over each patch.
    """
    return sort_patches(torch.from_numpy(maps), grid).numpy()


def sort_patches(maps: Tensor, grid: tuple[int, int]) -> Tensor:
    """Compute `rank_patches` with tensors."""
    values = F.adaptive_avg_pool2d(maps, grid).flatten(1)  # (L, P)
    return values.argsort(descending=True, stable=True)
