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


def compute_integrated_gradients(subject: AttributionInput) -> Tensor:
    """Compute Integrated Gradients, summed over the pixels of each cell."""
    return torch.cat([_integrate_path(subject, i) for i in range(len(subject.images))])


@torch.enable_grad()
def _integrate_path(subject: AttributionInput, i: int) -> Tensor:
    """Compute the Integrated Gradients (1, rows, columns) of the image `i` of `subject`."""
    from captum.attr import IntegratedGradients  # importing takes two seconds

    image, weights = subject.images[i : i + 1], subject.class_weights[i : i + 1]
    for steps in subject.path_steps or INTEGRATION_STEPS:
        done = 0

        def score(images: Tensor, steps: int = steps) -> Tensor:
            nonlocal done
            subject.on_step(min(done, steps), steps)
            done += len(images)
            return log_score(subject.model, images.to(image.dtype), weights)

        pixels = IntegratedGradients(score).attribute(
            # float32 is needed, because bfloat16 cannot represent the small steps of the path
            upcast(image.clone()),
            baselines=0.0,  # the uniform colour
            n_steps=steps,
            # A backward pass needs more memory than a forward pass.
            internal_batch_size=ATTRIBUTION_BATCH_SIZE // 4,
        )  # (1, 3, S, S)
        found = sum_over_cells(pixels.sum(dim=1), subject.grid)
        if float(completeness_gap(subject.model, image, found, weights)) < MAX_COMPLETENESS_GAP:
            break
    subject.on_step(steps, steps)
    return found


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
