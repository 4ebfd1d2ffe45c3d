"""Integrated Gradients (Sundararajan et al. 2017, https://arxiv.org/abs/1703.01365, equation 1).

Letters: B batch, S side in pixels, C classes.
"""

import torch
from torch import Tensor, nn

from vitdemo.explain.attributions.cells import sum_over_cells
from vitdemo.explain.attributions.method import (
    ATTRIBUTION_BATCH_SIZE,
    AttributionInput,
    AttributionMethod,
    log_score,
)
from vitdemo.explain.forward_pass import upcast

# The number of steps is doubled until the completeness gap is small enough.
INTEGRATION_STEPS, MAX_COMPLETENESS_GAP = (32, 64, 128, 256, 512), 0.01
# A backward pass needs more memory than a forward pass.
PATH_BATCH_SIZE = ATTRIBUTION_BATCH_SIZE // 4


def compute_integrated_gradients(subject: AttributionInput) -> Tensor:
    """Compute Integrated Gradients, summed over the pixels of each cell."""
    return torch.cat([_integrate_path(subject, i) for i in range(len(subject.images))])


def compute_path_gradients(model: nn.Module, points: Tensor, weights: Tensor) -> Tensor:
    """Compute the gradients (n, 3, S, S) of the score at n points of the path, (n, 3, S, S).

    The score is the log-probability times `weights` (1, C). No values are read, so the function can
    be recorded as a graph.
    """
    dtype = next(model.parameters()).dtype
    with torch.enable_grad():
        points = points.detach().requires_grad_()
        score = log_score(model, points.to(dtype), weights).sum()  # points do not affect each other
        return torch.autograd.grad(score, points)[0]


def _integrate_path(subject: AttributionInput, i: int) -> Tensor:
    """Compute the Integrated Gradients (1, rows, columns) of the image `i` of `subject`."""
    image, weights = subject.images[i : i + 1], subject.class_weights[i : i + 1]
    for steps in subject.path_steps or INTEGRATION_STEPS:
        # float32 is needed, because bfloat16 cannot represent the small steps of the path
        pixels = _integrate_gradients(subject, upcast(image), weights, steps)  # (1, 3, S, S)
        found = sum_over_cells(pixels.sum(dim=1), subject.grid)
        if float(completeness_gap(subject.model, image, found, weights)) < MAX_COMPLETENESS_GAP:
            break
    subject.on_step(steps, steps)
    return found


def _integrate_gradients(
    subject: AttributionInput, image: Tensor, weights: Tensor, steps: int
) -> Tensor:
    """Integrate the gradient from the uniform colour 0 to `image` (1, 3, S, S) with captum."""
    from captum.attr import IntegratedGradients  # importing takes two seconds

    done = 0

    def compute_gradients(*, inputs: tuple[Tensor], **unused: object) -> tuple[Tensor]:
        nonlocal done
        (points,) = inputs
        subject.on_step(min(done, steps), steps)
        done += len(points)
        return (compute_path_gradients(subject.model, points, weights),)

    method = IntegratedGradients(subject.model)
    method.gradient_func = compute_gradients
    return method.attribute(
        image.clone(), baselines=0.0, n_steps=steps, internal_batch_size=PATH_BATCH_SIZE
    )


@torch.no_grad()
def completeness_gap(model: nn.Module, images: Tensor, maps: Tensor, weights: Tensor) -> Tensor:
    """Compute the completeness gap (B,) of `maps` (B, rows, columns) of Integrated Gradients.

    The gap is the relative difference between the sum of a map and the score change. The score
    change is the score of `images` (B, 3, S, S) minus the score of the mean colour. The score is
    the log-probability times `weights` (B, C): a one-hot vector for a class, or the difference of
    two one-hot vectors for a contrast.
    """
    change = log_score(model, images, weights) - log_score(model, torch.zeros_like(images), weights)
    tiny = torch.finfo(change.dtype).tiny  # `change` is 0 for an image of the uniform colour
    return (maps.sum(dim=(1, 2)) - change).abs() / change.abs().clamp(min=tiny)


METHOD = AttributionMethod(
    "integrated_gradients",
    "Integrated Gradients",
    "Gradient of the class's log-probability, integrated from a uniform image (model input 0) to "
    "this image (Sundararajan et al. 2017). The values add up to the change of the "
    "log-probability. A different starting image gives a different map.",
    compute_integrated_gradients,
    is_signed=True,
    is_slow=True,
    is_linear=True,
    is_complete=True,
)
