"""Similar patches: colours of patches by layer, and the most similar patches of the test set.

    axes, photos = load_photo_colours(context, run)
    colour_patches(axes, trace.tokens[1:, trace.num_prefix_tokens :])  # (L, P, 3)
    index = build_patch_index(context, run, layer=6)
    index.find_similar(trace.tokens[6, trace.num_prefix_tokens + 17])

The axes of the colours are fitted on the patches of all example photos, so a colour has the same
meaning in all images. Letters: L layers, N test images, P patches, D width, K found patches.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from vitdemo.analyses.features import ImageSample, load_sample
from vitdemo.context import AppContext
from vitdemo.data.photos import load_example_squares
from vitdemo.errors import RunError
from vitdemo.explain.attributions import OnStep
from vitdemo.explain.checks import require_attention
from vitdemo.explain.forward_pass import iter_tokens, upcast
from vitdemo.explain.image_trace import ImageTrace
from vitdemo.explain.patch_components import PatchAxes, colour_patches, fit_patch_axes
from vitdemo.runs import Run

MAX_INDEX_IMAGES = 1_000
MAX_INDEX_BYTES = 100 * 2**20
INDEX_BATCH_SIZE = 25  # images per forward pass
NUM_SIMILAR = 10  # patches, each of another image
MAX_ROUGH_ERROR = 0.002  # of a cosine that is computed and rounded in float16


@dataclass(frozen=True, eq=False)
class PatchIndex:
    """Patch tokens of test images after one layer, as unit vectors (N, P, D) in float16."""

    sample: ImageSample
    tokens: Tensor

    def find_similar(
        self, token: Tensor, count: int = NUM_SIMILAR, excluded: int | None = None
    ) -> list[tuple[int, int, float]]:
        """Find the patches with the highest cosine similarity to `token` (D,), best first.

        Only the most similar patch of each image counts. Returns at most `count` tuples: the place
        of the image in the sample, the patch 0 to P-1, and the cosine. `excluded` is the number of
        an image in the test set that is left out.
        """
        direction = F.normalize(upcast(token.detach().cpu()), dim=0)  # (D,)
        kept = torch.from_numpy(self.sample.indices != excluded)
        count = min(count, int(kept.sum()))
        # The product in float16 takes a twentieth of the time, and finds all images that can be
        # among the best. Their cosines are then computed in float32.
        rough = self.tokens.flatten(0, 1).mv(direction.half()).view(self.tokens.shape[:2])  # (N, P)
        tops = rough.float().amax(1).where(kept, -torch.inf)  # (N,)
        lowest = tops.topk(count).values.amin() if count else torch.tensor(torch.inf)
        places = (tops >= lowest - 2 * MAX_ROUGH_ERROR).nonzero()[:, 0]  # (M,)
        cosines, patches = (self.tokens[places].float() @ direction).max(1)  # (M,), (M,)
        best = cosines.argsort(descending=True, stable=True)[:count].tolist()
        return [(int(places[i]), int(patches[i]), float(cosines[i])) for i in best]


def colour_images(
    context: AppContext, run: Run, images: list[Image.Image]
) -> tuple[PatchAxes, Tensor]:
    """Fit axes on the patches of RGB `images`, and return them with the colours (L, n, P, 3).

    The images may have different sizes, because each is cropped to the model's input. Raises
    `RunError` for a model without attention, and for tokens that are not finite.
    """
    require_attention(run, context.load_model(run))
    patches = torch.stack([get_patch_tokens(context.trace_image(run, each)) for each in images], 1)
    n, P = patches.shape[1:3]
    try:
        axes = fit_patch_axes(patches.flatten(1, 2))
    except ValueError as error:
        raise RunError(f"'{run.name}' has no patch colours. {error}") from error
    return axes, colour_patches(axes, patches.flatten(1, 2)).unflatten(1, (n, P))


def load_photo_colours(context: AppContext, run: Run) -> tuple[PatchAxes, Tensor]:
    """Return the result of `colour_images` for all example photos; the result is cached."""

    def compute() -> tuple[PatchAxes, Tensor]:
        return colour_images(context, run, context.cache.call(load_example_squares))

    return context.cache.get_or_compute((load_photo_colours, run), compute)


def get_patch_tokens(trace: ImageTrace) -> Tensor:
    """Return the patch tokens (L, P, D) after each layer."""
    return trace.tokens[1:, trace.num_prefix_tokens :]


def build_patch_index(
    context: AppContext, run: Run, layer: int, on_step: OnStep | None = None
) -> PatchIndex:
    """Compute the patch tokens of test images after `layer` (1 to L); the result is cached.

    The images are a stratified sample of at most `MAX_INDEX_IMAGES`, and fewer if the tokens would
    need more than `MAX_INDEX_BYTES`. `on_step` is called as (done, total), in images; an exception
    in `on_step` stops the computation. Raises `ValueError` for a layer that does not exist,
    `DataError` without a dataset, and `RunError` for a model without attention or with NaN.
    """
    model = context.load_model(run)
    require_attention(run, model)
    if not 1 <= layer <= len(model.blocks):
        raise ValueError(f"There is no layer {layer}: choose 1 to {len(model.blocks)}.")
    sample = load_sample(context, count_index_images(context, run))

    def compute() -> PatchIndex:
        return PatchIndex(sample, _compute_tokens(context, run, sample, layer, on_step))

    return context.cache.get_or_compute(_make_key(context, run, layer), compute)


def find_patch_index(context: AppContext, run: Run, layer: int) -> PatchIndex | None:
    """Return the result of `build_patch_index` if it is in the cache. Raises `DataError`."""
    return context.cache.get(_make_key(context, run, layer))


def _make_key(context: AppContext, run: Run, layer: int) -> tuple:
    return build_patch_index, context.open_dataset(), run, layer


def count_index_images(context: AppContext, run: Run) -> int:
    """Return the largest number of images whose patch tokens fit in an index of `run`."""
    model = context.load_model(run)
    image_bytes = 2 * model.patch_embed.num_patches * model.embed_dim  # float16
    return max(1, min(MAX_INDEX_IMAGES, MAX_INDEX_BYTES // image_bytes))


@torch.inference_mode()
def _compute_tokens(
    context: AppContext, run: Run, sample: ImageSample, layer: int, on_step: OnStep | None
) -> Tensor:
    """Return the unit vectors (N, P, D) of the sample's patches after `layer` layers."""
    model, images, parts = context.load_model(run), sample.load_inputs(run), []
    report: Callable[[int, int], None] = on_step or (lambda done, total: None)
    for i, batch in enumerate(images.split(INDEX_BATCH_SIZE)):
        report(i * INDEX_BATCH_SIZE, len(images))
        with context.divide_cores():
            tokens = iter_tokens(model, run.preprocessing(batch.to(context.device)))
            x = next(islice(tokens, layer, None))  # (B, N, D)
        directions = F.normalize(upcast(x[:, model.num_prefix_tokens :]), dim=-1)  # (B, P, D)
        if not directions.isfinite().all():
            raise RunError(f"The tokens of '{run.name}' are not finite. Choose another model.")
        parts.append(directions.half().cpu())
    return torch.cat(parts)
