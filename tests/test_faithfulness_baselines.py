"""The nulls of a score, on maps that know nothing: how often are they called more than that?

A model of patches as small as can be, and pictures with one bright blob somewhere near the middle,
so that where a map lies matters, as it does in photos.
"""

import functools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import ndimage, stats

from vitdemo.explain.faithfulness import measure_perturbation_curves, score_transformed_copies
from vitdemo.explain.faithfulness.baselines import (
    NUM_RANDOM_ORDERS,
    SIGNIFICANCE_LEVEL,
    draw_transformed_copies,
    edge_map,
    rank_p_value,
    staged_p_value,
)

GRID, SIDE, TRIALS = (8, 8), 16, 500


class PatchClassifier(torch.nn.Module):
    """Two classes, from a small network on each patch of 2 px and the mean of all."""

    num_classes = 2

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.head = torch.nn.Conv2d(3, 16, 2, stride=2), torch.nn.Linear(16, 2)
        torch.nn.init.normal_(self.embed.weight, std=0.6)
        torch.nn.init.normal_(self.head.weight, std=3)

    def forward(self, images):
        return self.head(self.embed(images).relu().mean(dim=(2, 3)))


@pytest.fixture(scope="module")
def model():
    return PatchClassifier().eval().requires_grad_(False)


def make_blob_image(seed):
    random = torch.Generator().manual_seed(seed)
    centre = SIDE / 2 + 2 * torch.randn(2, generator=random)
    place = torch.arange(SIDE)
    away = (place[:, None] - centre[0]) ** 2 + (place - centre[1]) ** 2
    colour = torch.randn(3, 1, 1, generator=random)
    return (
        2 * colour * torch.exp(-away / 18) + 0.3 * torch.randn(3, SIDE, SIDE, generator=random)
    )[None]


def make_noise_map(seed, smooth=False):
    """A map that knows nothing, of cells of their own or of a smooth field."""
    random = torch.Generator().manual_seed(20_000 + seed)
    if not smooth:
        return torch.randn(GRID, generator=random)
    place = torch.arange(-4, 5).double()
    bell = torch.exp(-(place**2) / 8)
    wide = torch.randn(1, 1, 16, 16, generator=random).double()
    return F.conv2d(wide, (bell[:, None] * bell)[None, None])[0, 0]  # (8, 8), without an edge


def compute_p_values(model, image, target, values, seed=0):
    """p of a map against random orders, and against its own shape laid elsewhere."""
    measured = measure_perturbation_curves(
        model, image, target, {"own": values}, steps=4, seed=seed
    )
    laid = score_transformed_copies(model, image, target, values, steps=4, seed=seed)
    score = measured.scores["own"]
    return rank_p_value(score, measured.random_scores), rank_p_value(score, laid)


@functools.cache
def compute_null_p_values(model, smooth):
    """(TRIALS, 2) of maps that know nothing, each on a picture of its own."""
    trials = (
        (make_blob_image(seed), make_noise_map(seed, smooth), 1000 * seed) for seed in range(TRIALS)
    )
    return np.array(
        [compute_p_values(model, image, 0, values, seed) for image, values, seed in trials]
    )


def test_random_maps_have_the_stated_false_positive_rate(model):
    orders, shape = compute_null_p_values(model, smooth=False).T
    assert 0.03 <= (orders <= SIGNIFICANCE_LEVEL).mean() <= 0.06
    assert (shape <= SIGNIFICANCE_LEVEL).mean() <= 0.06


def test_smooth_random_maps_need_the_shape_null(model):
    orders, shape = compute_null_p_values(model, smooth=True).T
    assert (
        orders <= SIGNIFICANCE_LEVEL
    ).mean() > 0.15  # their shape alone: the reason for the second null
    assert (shape <= SIGNIFICANCE_LEVEL).mean() <= 0.06
    assert (
        (orders <= SIGNIFICANCE_LEVEL) & (shape <= SIGNIFICANCE_LEVEL)
    ).mean() <= 0.06  # which is what the page says


def test_p_is_uniform_under_the_null(model):
    of_noise, of_smooth_noise = (
        compute_null_p_values(model, smooth=smooth) for smooth in (False, True)
    )
    places = np.arange(1, 20) / 20
    near = stats.kstwo.ppf(0.99, TRIALS)
    orders = (of_noise[:, :1] <= places + 1e-9).mean(axis=0)
    assert np.abs(orders - places).max() < near
    for found in (of_noise, of_smooth_noise):  # shifting makes a null of its own: never below
        shape = (found[:, 1:] <= places + 1e-9).mean(axis=0)
        assert (shape - places).max() < near


def test_staged_p_value_is_valid_and_needs_fewer_samples():
    scores = torch.rand(20_000, 20, generator=torch.Generator().manual_seed(0))
    found, asked = [], []
    for own, *null in scores.tolist():
        left = list(null)

        def draw(count, seed, left=left):
            return torch.tensor([left.pop() for _ in range(count)])

        found.append(staged_p_value(own, draw))
        asked.append(19 - len(left))
        assert (found[-1] <= 0.05) is (own > max(null))
    for a in np.arange(1, 21) / 20:
        assert np.mean(np.array(found) <= a + 1e-9) <= a + 0.005
    assert set(asked) == {5, 19} and np.mean(asked) == pytest.approx(5 + 14 / 6, abs=0.2)


def test_true_contribution_map_is_significant(model):
    found = []
    for seed in range(10):
        image = make_blob_image(seed)
        with torch.no_grad():
            target = int(model(image).argmax())
            base = model.embed.bias.relu() @ model.head.weight.T  # of a patch of the mean colour
            own = model.embed(image).relu().permute(0, 2, 3, 1) @ model.head.weight.T - base
        truth = (own[..., target] - own[..., 1 - target])[0]  # (8, 8): what each patch adds
        found.append(compute_p_values(model, image, target, truth))
    assert np.max(found, axis=0)[0] == pytest.approx(1 / (NUM_RANDOM_ORDERS + 1))
    assert np.median(found, axis=0)[1] <= 0.1  # some that were hardly shifted are as good


def test_reversed_order_has_the_opposite_score(model):
    found = measure_perturbation_curves(
        model, make_blob_image(0), 0, {"own": make_noise_map(0)}, steps=4, random_orders=20
    )
    scores = found.random_scores
    torch.testing.assert_close(scores[:10], -scores[10:])
    assert scores.std() > 1e-3
    both = measure_perturbation_curves(
        model,
        make_blob_image(0),
        0,
        {"own": make_noise_map(0), "reverse": -make_noise_map(0)},
        steps=4,
    ).scores
    assert both["own"] == pytest.approx(-both["reverse"], abs=1e-6)


def test_edge_map_is_the_mean_sobel_magnitude_per_patch():
    image = torch.randn(1, 3, 12, 16, generator=torch.Generator().manual_seed(0))
    grey = image.mean(1)[0].double().numpy()
    strength = np.hypot(*(ndimage.sobel(grey, axis, mode="nearest") for axis in (0, 1)))
    expected = strength.reshape(3, 4, 4, 4).mean(axis=(1, 3))
    assert edge_map(image, (3, 4)).numpy() == pytest.approx(expected, abs=1e-5)
    step = torch.zeros(1, 3, 16, 16)
    step[..., 8:] = 1
    assert edge_map(step, (4, 4)).gt(0).tolist() == 4 * [[False, True, True, False]]
    assert not edge_map(torch.ones(1, 3, 16, 16), (4, 4)).any()


def test_rank_p_equals_hand_computed_values():
    null = torch.tensor([0.1, 0.2, 0.3, 0.4])
    assert [rank_p_value(s, null) for s in (0.5, 0.3, 0.0)] == [0.2, 0.6, 1.0]
    assert rank_p_value(1.0, torch.empty(0)) == 1.0


def test_transformed_maps_keep_the_values_of_the_map():
    values = torch.arange(12.0).view(3, 4)
    laid = draw_transformed_copies(values, 500, seed=1)
    assert laid.shape == (500, 3, 4) and set(laid.unique().tolist()) == set(range(12))
    assert any(torch.equal(own, values) for own in laid)
    assert len({tuple(own.flatten().tolist()) for own in laid}) == 3 * 5 * 4  # places, half turns
    square = draw_transformed_copies(torch.arange(9.0).view(3, 3), 3000, seed=1)
    assert len({tuple(own.flatten().tolist()) for own in square}) == 3 * 3 * 8
    assert torch.equal(
        draw_transformed_copies(values, 5, seed=3), draw_transformed_copies(values, 5, seed=3)
    )


def test_transformed_maps_keep_neighbours_and_extend_the_border():
    values = torch.zeros(7, 7)
    values[3, 2:4] = 1
    for own in draw_transformed_copies(values, 50):
        places = own.nonzero()
        reach = places.max(0).values - places.min(0).values
        assert len(places) and reach.sum() == len(places) - 1
    slope = torch.arange(5.0).expand(5, 5)
    for own in draw_transformed_copies(slope, 50):
        steps = torch.cat([own.diff(dim=0).flatten(), own.diff(dim=1).flatten()]).unique()
        assert set(steps.tolist()) <= {-1.0, 0.0, 1.0}
