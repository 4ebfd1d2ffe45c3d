"""Activation patching between two images, for a run: maps, curves, and single replacements.

    pair = load_image_pair(context, run, cat, bus)
    found = compute_patching(context, pair)
    found.maps  # (L+1, rows, columns): share of each group of patches after each layer
    patch_image(context, pair, layer=3, tokens=[0]).share  # only the class token

A share is the normalised logit difference of `vitdemo.explain.patching`: 0 as for the first image,
1 as for the second image.

Letters: L layers, N tokens, P patches, C classes.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
import scipy
import torch
from PIL import Image
from torch import Tensor

from vitdemo.context import AppContext
from vitdemo.data.photos import example_files, is_same_image, load_example_squares
from vitdemo.errors import ImageError, RunError
from vitdemo.explain import patching
from vitdemo.explain.attributions import OnStep
from vitdemo.explain.checks import require_attention, require_finite, to_numpy
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.runs import Run

MAX_GROUPS = 64  # patches are grouped, so that a map has at most this number of groups
RANDOM_DRAWS = 8  # draws of random patches, the baseline
PATCHING_BATCH_SIZE = 16  # copies of the tokens per pass: more are slower in the processor's cache


@dataclass(frozen=True, eq=False)
class ImagePair:
    """Traces of two images, and the two `classes` whose logit difference is measured.

    The classes are the predicted classes of both images. If these are equal, the second class is
    the one whose logit changes most between the images, relative to the predicted class.
    """

    run: Run
    first: ImageTrace
    second: ImageTrace
    classes: tuple[int, int]

    @property
    def predicted(self) -> tuple[int, int]:
        """Classes that the model predicts for the two images."""
        first, second = (int(logits.argmax()) for logits in self.logits)
        return first, second

    @property
    def logits(self) -> tuple[Tensor, Tensor]:
        """Logits (C,) of the two images, only of named classes."""
        C = len(self.run.classes)
        return self.first.logits[:C], self.second.logits[:C]

    @property
    def probabilities(self) -> tuple[np.ndarray, np.ndarray]:
        first, second = (scipy.special.softmax(to_numpy(logits)) for logits in self.logits)
        return first, second

    @property
    def has_change(self) -> bool:
        """Whether the logit difference of the two classes differs between the images."""
        a, b = self.classes
        first, second = (float(logits[b] - logits[a]) for logits in self.logits)
        return first != second

    def compute_shares(self, logits: Tensor) -> Tensor:
        """Return the shares (n,) of patched `logits` (n, C)."""
        classes = torch.tensor(self.classes, device=logits.device)
        return patching.compute_logit_shares(logits, *self.logits, classes)


@dataclass(frozen=True, eq=False)
class PatchingResult:
    """Shares for a pair of images, by the number of layers before the replacement, 0 to L.

    `maps` (L+1, rows, columns) are for one group of `side` x `side` patches each. `curves` maps the
    sets of tokens of `patching.build_token_masks` to shares (L+1,). `random` (L+1, RANDOM_DRAWS) is
    for a random half of the patches.
    """

    side: int
    maps: np.ndarray
    curves: dict[str, np.ndarray]
    random: np.ndarray


@dataclass(frozen=True, eq=False)
class PatchedPrediction:
    """Prediction for the first image with some `tokens` of the second image after `layer` layers.

    `probabilities` (C,) are those of the run's classes. `random` contains the shares of
    RANDOM_DRAWS sets of the same number of random patches; it is empty if no token is replaced, or
    if there are not more patches than replaced tokens.
    """

    layer: int
    tokens: tuple[int, ...]
    probabilities: np.ndarray
    share: float
    random: tuple[float, ...]


def load_image_pair(
    context: AppContext, run: Run, image: Image.Image, other: Image.Image
) -> ImagePair:
    """Trace the two images. They may have different sizes: both are cropped to the model's input.

    Raises `RunError` for a model without attention, with fewer than two classes, or with NaN.
    """
    run.require_classes()
    require_attention(run, context.load_model(run))
    if len(run.classes) == 1:
        raise RunError(
            f"'{run.name}' has only the class '{run.classes[0]}', so there is no logit difference. "
            "Choose another model."
        )
    first, second = (context.trace_image(run, each) for each in (image, other))
    logits = [to_numpy(each.logits)[: len(run.classes)] for each in (first, second)]
    require_finite(run, np.stack(logits))
    return ImagePair(run, first, second, choose_classes(*logits))


def choose_other_photo(context: AppContext, run: Run, image: Image.Image) -> str:
    """Return the file of the first example photo with another predicted class than `image`.

    Without such a photo, return the first photo that is not `image`. Raises `ImageError` if there
    is none, and `RunError` for a model without classes.
    """

    def predict(square: Image.Image) -> int:
        return int(context.predict(run, square).probabilities.argmax())

    run.require_classes()
    own = predict(image)
    squares = context.cache.call(load_example_squares)
    photos = dict(zip(example_files(), squares, strict=True))
    others = [file for file, square in photos.items() if not is_same_image(square, image)]
    if not others:
        raise ImageError("There is no second example photo.")
    return next((file for file in others if predict(photos[file]) != own), others[0])


def choose_classes(first: np.ndarray, second: np.ndarray) -> tuple[int, int]:
    """Return the two classes whose logit difference is measured; see `ImagePair`."""
    a, b = int(first.argmax()), int(second.argmax())
    if a == b:
        change = np.abs((second - second[a]) - (first - first[a]))  # 0 for class a
        change[a] = -1
        b = int(change.argmax())
    return a, b


def find_group_side(grid: tuple[int, int]) -> int:
    """Return the side of the groups: the smallest that gives at most `MAX_GROUPS` groups."""
    sides = range(1, max(grid) + 1)
    return next(s for s in sides if math.prod(-(-count // s) for count in grid) <= MAX_GROUPS)


def compute_patching(
    context: AppContext, pair: ImagePair, on_step: OnStep | None = None
) -> PatchingResult:
    """Compute maps and curves of a pair; the result is cached.

    `on_step` is called as (done, total), in passes through one layer; an exception in `on_step`
    stops the computation, and nothing is cached.
    """
    return context.cache.get_or_compute(
        make_result_key(pair), lambda: _compute_result(context, pair, on_step)
    )


def find_cached_patching(context: AppContext, pair: ImagePair) -> PatchingResult | None:
    """Return the result of `compute_patching` if it is in the cache."""
    return context.cache.get(make_result_key(pair))


def make_result_key(pair: ImagePair) -> tuple:
    return compute_patching, pair.run, pair.first.input_image, pair.second.input_image


def patch_image(
    context: AppContext, pair: ImagePair, layer: int, tokens: Collection[int]
) -> PatchedPrediction:
    """Predict the first image with `tokens` (0 to N-1) of the second image after `layer` layers.

    The result is cached. Raises `ValueError` for a layer or a token that does not exist.
    """
    chosen = tuple(sorted(set(tokens)))
    key = patch_image, pair.run, pair.first.input_image, pair.second.input_image, layer, chosen
    return context.cache.get_or_compute(key, lambda: _patch_tokens(context, pair, layer, chosen))


def _compute_result(context: AppContext, pair: ImagePair, on_step: OnStep | None) -> PatchingResult:
    model, trace = context.load_model(pair.run), pair.first
    side, P = find_group_side(trace.grid), math.prod(trace.grid)
    sets = patching.build_token_masks(model)
    groups = patching.build_patch_masks(model, side)  # (n, N)
    drawn = patching.draw_random_masks(model, P // 2, RANDOM_DRAWS)
    masks = torch.cat([groups, torch.stack([*sets.values()]), drawn])
    L = trace.num_layers
    # Even after the last layer, the classifier head runs, so a step has a cost above 0.
    costs = [len(masks) * (L - layer + 1) for layer in range(L + 1)]
    shares = []
    for layer in range(L + 1):
        before, rate = sum(costs[:layer]), L - layer + 1
        step = on_step and (lambda n, b=before, r=rate: on_step(b + n * r, sum(costs)))
        shares.append(_compute_shares(context, pair, layer, masks, step))
    everything = torch.stack(shares).cpu().numpy()  # (L+1, masks)
    ends = np.cumsum([len(groups), len(sets)])
    maps, curves, random = np.split(everything, ends, axis=1)
    shape = [-(-count // side) for count in trace.grid]
    by_name = dict(zip(sets, curves.T, strict=True))
    return PatchingResult(side, maps.reshape(-1, *shape), by_name, random)


def _compute_shares(
    context: AppContext,
    pair: ImagePair,
    layer: int,
    masks: Tensor,
    on_step: Callable[[int], None] | None = None,
) -> Tensor:
    """Return the shares (n,) of the `masks` (n, N); `on_step` is called with the finished masks."""
    shares, done = [], 0
    for part in masks.split(PATCHING_BATCH_SIZE):
        shares.append(pair.compute_shares(_predict(context, pair, layer, part)))
        done += len(part)
        if on_step:
            on_step(done)
    return torch.cat(shares)


@torch.inference_mode()
def _predict(context: AppContext, pair: ImagePair, layer: int, masks: Tensor) -> Tensor:
    """Return the logits (n, C) of named classes for one batch of `masks` (n, N)."""
    model, tokens = context.load_model(pair.run), (pair.first.tokens, pair.second.tokens)
    first, second = (each[min(layer, len(each) - 1)] for each in tokens)  # (N, D)
    with context.divide_cores():
        logits = patching.compute_patched_logits(model, first, second, masks, layer)
    return logits[:, : len(pair.run.classes)]


def _patch_tokens(
    context: AppContext, pair: ImagePair, layer: int, tokens: tuple[int, ...]
) -> PatchedPrediction:
    model, N = context.load_model(pair.run), pair.first.tokens.shape[1]
    if unknown := [token for token in tokens if token not in range(N)]:
        raise ValueError(f"There is no token {unknown[0]}: the model has tokens 0 to {N - 1}.")
    mask = torch.zeros(1, N, dtype=torch.bool)
    mask[0, [*tokens]] = True
    logits = _predict(context, pair, layer, mask)
    require_finite(pair.run, to_numpy(logits))
    draws = RANDOM_DRAWS if 0 < len(tokens) < math.prod(pair.first.grid) else 0
    drawn = patching.draw_random_masks(model, len(tokens) if draws else 0, draws)
    random = _compute_shares(context, pair, layer, drawn).tolist() if draws else []
    return PatchedPrediction(
        layer,
        tokens,
        scipy.special.softmax(to_numpy(logits)[0]),
        float(pair.compute_shares(logits)[0]),
        tuple(random),
    )
