"""Integrated Gradients (Sundararajan et al. 2017, https://arxiv.org/abs/1703.01365, equation 1).

Letters: B batch, S side in pixels, C classes.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from vitdemo.explain.attributions.cells import sum_over_cells
from vitdemo.explain.attributions.method import (
    ATTRIBUTION_BATCH_SIZE,
    LOOP_BATCH_SIZE,
    AttributionInput,
    AttributionLoop,
    AttributionMethod,
    Values,
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

    The gap is the relative difference between the sum of a map and the score change, see
    `_compute_score_change`.
    """
    return _compare_with_change(maps, _compute_score_change(model, images, weights))


def _compute_score_change(model: nn.Module, images: Tensor, weights: Tensor) -> Tensor:
    """Compute the score of `images` (B, 3, S, S) minus the score of the mean colour, (B,).

    The score is the log-probability times `weights` (B, C): a one-hot vector for a class, or the
    difference of two one-hot vectors for a contrast.
    """
    return log_score(model, images, weights) - log_score(model, torch.zeros_like(images), weights)


def _compare_with_change(maps: Tensor, change: Tensor) -> Tensor:
    tiny = torch.finfo(change.dtype).tiny  # `change` is 0 for an image of the uniform colour
    return (maps.sum(dim=(1, 2)) - change).abs() / change.abs().clamp(min=tiny)


class _Schedule(NamedTuple):
    """Points of the path in the order of a loop's steps, first those of the smallest number.

    As captum, the integral is a Gauss-Legendre sum of `shares` (T,) of the gradients at the
    fractions `places` (T,) of the path. For each step of the loop, `totals` is the number of points
    of its sum, `done` of those that are reached, and `ends` is true for the last step of a sum.
    """

    places: Tensor
    shares: Tensor
    totals: Tensor
    done: Tensor
    ends: Tensor


def _make_schedule(numbers: tuple[int, ...]) -> _Schedule:
    """Return the schedule for `numbers` of points, multiples of `LOOP_BATCH_SIZE`."""
    found = [np.polynomial.legendre.leggauss(number) for number in numbers]
    places, shares = (np.concatenate(each) for each in zip(*found, strict=True))
    done = [np.arange(0, number, LOOP_BATCH_SIZE) + LOOP_BATCH_SIZE for number in numbers]
    totals = [np.full_like(each, number) for each, number in zip(done, numbers, strict=True)]
    reached, total = (torch.from_numpy(np.concatenate(each)) for each in (done, totals))
    # The points of `leggauss` are between -1 and 1.
    fractions, weights = (torch.from_numpy(each).float() for each in ((1 + places) / 2, shares / 2))
    return _Schedule(fractions, weights, total, reached, reached == total)


def start_loop(subject: AttributionInput) -> Values:
    first, *_ = subject.path_steps or INTEGRATION_STEPS
    return {
        "map": torch.zeros(subject.grid),
        "gradients": torch.zeros_like(subject.images),  # the sum until this step
        "change": _compute_score_change(subject.model, subject.images, subject.class_weights),
        "step": torch.tensor(0),
        "done": torch.tensor(0),
        "total": torch.tensor(first),
        "is_finished": torch.tensor(False),
    }


def continue_loop(subject: AttributionInput, values: Values) -> Values:
    schedule = _make_schedule(subject.path_steps or INTEGRATION_STEPS)
    step, images = values["step"], subject.images
    rows = LOOP_BATCH_SIZE * step + torch.arange(LOOP_BATCH_SIZE)
    places, shares = (each[:, None, None, None].index_select(0, rows) for each in schedule[:2])
    found = compute_path_gradients(subject.model, places * images, subject.class_weights)
    gradients = values["gradients"] + (shares * found).sum(0, keepdim=True)
    pixels = (gradients * images).sum(dim=1)  # (1, S, S)
    maps = sum_over_cells(pixels, subject.grid)
    total, done, is_end = (each.index_select(0, step[None])[0] for each in schedule[2:])
    is_exact = _compare_with_change(maps, values["change"])[0] < MAX_COMPLETENESS_GAP
    return {
        "map": maps[0],
        "gradients": gradients.masked_fill(is_end, 0),
        "change": values["change"],
        "step": step + 1,
        "done": done,
        "total": total,
        "is_finished": is_end & (is_exact | (step == len(schedule.totals) - 1)),
    }


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
    loop=AttributionLoop(start_loop, continue_loop),
)
