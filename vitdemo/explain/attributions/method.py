"""Description of an attribution method, and the input that all methods share.

Letters: B batch, L layers, H heads, N tokens, S side in pixels, C classes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from vitdemo.explain import attention, forward_pass
from vitdemo.explain.attributions.cells import cell_grid
from vitdemo.models.capabilities import has_features

ATTRIBUTION_BATCH_SIZE = 64  # images per forward pass; `on_step` is called once per pass
LOOP_BATCH_SIZE = 4  # images per step of a loop, because a browser's thread and memory are limited

OnStep = Callable[[int, int], None]  # (done, total); may raise to stop the computation


@dataclass
class AttributionInput:
    """Model, images and classes to explain, with cached results that several methods share."""

    model: nn.Module
    images: Tensor  # (B, 3, S, S)
    classes: Tensor  # (B,)
    class_weights: Tensor  # (B, C): factors of the class scores in the explained score
    on_step: OnStep
    path_steps: tuple[int, ...] | None = None  # see `attribute`
    needs_gradients: bool = False  # whether another method needs `gradients`

    @classmethod
    def create(
        cls,
        model: nn.Module,
        images: Tensor,
        classes: Tensor,
        *,
        path_steps: tuple[int, ...] | None = None,
        on_step: OnStep | None = None,
    ) -> "AttributionInput":
        """Return the input for one class per image; the values of `classes` (B,) are not read."""
        dtype = torch.promote_types(images.dtype, torch.float32)
        # F.one_hot would read the values.
        known = torch.arange(model.num_classes, device=images.device)
        weights = (classes[:, None] == known).to(dtype)  # (B, C)
        images = images.clone() if images.is_inference() else images
        report = on_step or (lambda done, total: None)
        return cls(model, images, classes, weights, report, path_steps)

    @property
    def grid(self) -> tuple[int, int]:
        return cell_grid(self.model, self.images)

    @cached_property
    def gradients(self) -> forward_pass.ClassGradients:
        return forward_pass.class_gradients(self.model, self.images, self.classes)

    @cached_property
    def attention(self) -> Tensor:  # (L, B, H, N, N)
        if self.needs_gradients:
            return torch.stack(self.gradients.attention)
        with torch.no_grad():
            return forward_pass.trace(self.model, self.images).attention

    def to_patch_maps(self, matrix: Tensor) -> Tensor:
        """Return the mean over the classifier's rows of `matrix` as maps (B, rows, columns)."""
        prefix, rows = self.model.num_prefix_tokens, forward_pass.classifier_rows(self.model)
        return attention.classifier_map(matrix, prefix, rows).unflatten(1, self.grid)


Values = dict[str, Tensor]


@dataclass(frozen=True)
class AttributionLoop:
    """The steps of a slow method for one image, as functions that read no values of tensors.

    Such functions can be recorded as graphs. `start` returns the first values, and `step` returns
    the next ones. All contain the "map" (rows, columns), which is complete after the last step,
    the progress "done" and "total" () int64, and "is_finished" () bool.
    """

    start: Callable[[AttributionInput], Values]
    step: Callable[[AttributionInput, Values], Values]


@dataclass(frozen=True)
class AttributionMethod:
    """One attribution method, with its name, caption, function and properties.

    `caption` describes the map and its limit. `compute` returns maps (B, rows, columns) of a model
    with the capability `supports`. If a method `needs_gradients`, other methods use the attention
    of the same forward pass. An `is_signed` method also gives negative values. An `is_slow` method
    takes many forward passes. An `is_linear` method gives maps that are linear in the score: the
    map of a difference of scores is the difference of the maps. The values of an `is_complete`
    method add up to the change of the score (`completeness_gap`). If many patches of a map are
    exactly 0, `compute_ranking` gives values that rank these patches, see `compute_ranking_values`.
    A slow method also has a `loop`, which computes the same map.
    """

    name: str
    title: str
    caption: str
    compute: Callable[[AttributionInput], Tensor]
    supports: Callable[[nn.Module], bool] = has_features
    needs_gradients: bool = False
    is_class_specific: bool = True
    is_signed: bool = False
    is_slow: bool = False
    is_linear: bool = False
    is_complete: bool = False
    compute_ranking: Callable[[AttributionInput], Tensor] | None = None
    loop: AttributionLoop | None = None


def log_score(model: nn.Module, images: Tensor, weights: Tensor) -> Tensor:
    """Compute the sum (B,) over classes of log-probabilities times `weights` (B, C), in float32.

    For the difference of two classes, log-probabilities and logits give the same score.
    """
    return (forward_pass.upcast(model(images)).log_softmax(dim=1) * weights).sum(dim=1)
