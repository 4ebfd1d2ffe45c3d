"""Computation of attribution maps by one or several methods, for one class or for a contrast.

Letters: B batch, S side in pixels.
"""

from collections.abc import Collection
from dataclasses import replace

import torch
from torch import Tensor, nn

from vitdemo.explain.attributions.method import AttributionInput, AttributionMethod, OnStep
from vitdemo.explain.attributions.registry import get_supported_methods
from vitdemo.explain.checks import check_target


def attribute(
    method: str,
    model: nn.Module,
    images: Tensor,
    target: int | Tensor,
    *,
    path_steps: tuple[int, ...] | None = None,
    on_step: OnStep | None = None,
) -> Tensor:
    """Compute the attribution (B, rows, columns) of each patch for the class `target`.

    Maps are float32 for a model in half precision.

    Args:
        method: a name in `METHODS`.
        model: in eval mode. Other threads may use it at the same time.
        images: normalised, (B, 3, S, S). Zero is `Preprocessing.zero_colour`.
        target: one class for all images, or a LongTensor (B,) with one class per image.
        path_steps: numbers of steps of Integrated Gradients, tried in turn until the completeness
            gap is below `MAX_COMPLETENESS_GAP` (default: `INTEGRATION_STEPS`).
        on_step: called as (done, total) during a slow method; may raise to stop the method.

    The result has the patch grid of a ViT. For a convolutional model, the grid is the grid of the
    last features (Grad-CAM), or has `CELLS_PER_SIDE` rows and columns. Raises `ValueError` for an
    unknown method, for a method that does not support the model, and for an unknown class. Raises
    `TypeError` for a ViT that `forward_pass.trace` rejects.
    """
    options = {"path_steps": path_steps, "on_step": on_step}
    return attribute_many([method], model, images, target, **options)[method]


# Tensors of the caller's inference mode cannot carry a gradient, so the mode is switched off.
@torch.inference_mode(False)
def attribute_many(
    methods: Collection[str],
    model: nn.Module,
    images: Tensor,
    target: int | Tensor,
    *,
    path_steps: tuple[int, ...] | None = None,
    on_step: OnStep | None = None,
) -> dict[str, Tensor]:
    """Compute attribution maps by several methods; gradient methods share one backward pass."""
    chosen = get_supported_methods(methods, model)
    options = {"path_steps": path_steps, "on_step": on_step}
    return _compute_maps(chosen, _make_input(model, images, target, **options))


@torch.inference_mode(False)
def contrast_many(
    methods: Collection[str],
    model: nn.Module,
    images: Tensor,
    target: int | Tensor,
    against: int | Tensor,
    *,
    on_step: OnStep | None = None,
) -> dict[str, Tensor]:
    """Compute the map of class `target` minus the map of class `against`, by each method.

    For an `is_linear` method, the result is the map of the difference of the two scores. For other
    methods, the result is the difference of two maps whose negative values were set to 0. The
    result is 0 for a method that does not depend on the class. Other arguments and errors are as in
    `attribute_many`.
    """
    chosen = get_supported_methods(methods, model)
    apart = [method for method in chosen if not method.is_linear]
    subjects = [_make_input(model, images, each, on_step=on_step) for each in (target, against)]
    first, second = (_compute_maps(apart, subject) for subject in subjects)
    linear = [method for method in chosen if method.is_linear]
    weights = subjects[0].class_weights - subjects[1].class_weights
    found = _compute_maps(linear, replace(subjects[0], class_weights=weights))
    found |= {name: values - second[name] for name, values in first.items()}
    return {method.name: found[method.name] for method in chosen}


@torch.inference_mode(False)
def compute_ranking_values(
    method: str,
    model: nn.Module,
    images: Tensor,
    values: Tensor,
    target: int | Tensor,
    against: int | Tensor | None = None,
) -> Tensor:
    """Return the values (B, rows, columns) that rank the patches of the map `values`.

    Grad-CAM sets negative values to 0, so many patches are equal, and their order is undefined.
    The values before this step rank them. Other maps are returned unchanged.
    """
    (chosen,) = get_supported_methods([method], model)
    if chosen.compute_ranking is None:
        return values
    targets = [target] if against is None else [target, against]
    subjects = (_make_input(model, images, each) for each in targets)
    first, *second = (chosen.compute_ranking(subject).detach() for subject in subjects)
    return first - second[0] if second else first


def _make_input(
    model: nn.Module, images: Tensor, target: int | Tensor, **options
) -> AttributionInput:
    """Return the input of the methods. Raises `ValueError` for a class that does not exist."""
    classes = check_target(target, images, model.num_classes)  # (B,)
    return AttributionInput.create(model, images, classes, **options)


def _compute_maps(methods: list[AttributionMethod], subject: AttributionInput) -> dict[str, Tensor]:
    subject.needs_gradients = any(method.needs_gradients for method in methods)
    return {method.name: method.compute(subject).detach() for method in methods}
