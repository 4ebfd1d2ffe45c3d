"""False positive rates of the null distributions of a score, measured on random maps.

The model classifies tiny patches. Each image has one bright blob near the centre, so that the
position of a map matters, as in photos.
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
    """Classifier of two classes: the mean over 2 px patches of a small network."""

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
    positions = torch.arange(SIDE)
    square = (positions[:, None] - centre[0]) ** 2 + (positions - centre[1]) ** 2
    colour = torch.randn(3, 1, 1, generator=random)
    noise = torch.randn(3, SIDE, SIDE, generator=random)
    return (2 * colour * torch.exp(-square / 18) + 0.3 * noise)[None]


def make_noise_map(seed, smooth=False):
    """Return a random map of independent cells or of a smooth field."""
    random = torch.Generator().manual_seed(20_000 + seed)
    if not smooth:
        return torch.randn(GRID, generator=random)
    positions = torch.arange(-4, 5).double()
    bell = torch.exp(-(positions**2) / 8)
    noise = torch.randn(1, 1, 16, 16, generator=random).double()
    return F.conv2d(noise, (bell[:, None] * bell)[None, None])[0, 0]  # (8, 8), no border


def compute_p_values(model, image, target, values, seed=0):
    """Return p values of a map against random orders and against transformed copies."""
    settings = {"steps": 4, "seed": seed}
    measured = measure_perturbation_curves(model, image, target, {"own": values}, **settings)
    copies = score_transformed_copies(model, image, target, values, **settings)
    score = measured.scores["own"]
    return rank_p_value(score, measured.random_scores), rank_p_value(score, copies)


@functools.cache
def compute_null_p_values(model, smooth):
    """Return p values (TRIALS, 2) of random maps, each on a different image."""
    p_values = []
    for seed in range(TRIALS):
        image, values = make_blob_image(seed), make_noise_map(seed, smooth)
        p_values.append(compute_p_values(model, image, 0, values, 1000 * seed))
    return np.array(p_values)


def test_random_maps_have_the_stated_false_positive_rate(model):
    orders, shape = compute_null_p_values(model, smooth=False).T
    assert 0.03 <= (orders <= SIGNIFICANCE_LEVEL).mean() <= 0.06
    assert (shape <= SIGNIFICANCE_LEVEL).mean() <= 0.06


def test_smooth_random_maps_need_the_shape_null(model):
    orders, shape = compute_null_p_values(model, smooth=True).T
    assert (orders <= SIGNIFICANCE_LEVEL).mean() > 0.15  # so random orders are no sufficient null
    assert (shape <= SIGNIFICANCE_LEVEL).mean() <= 0.06
    # The page requires significance against both nulls.
    assert ((orders <= SIGNIFICANCE_LEVEL) & (shape <= SIGNIFICANCE_LEVEL)).mean() <= 0.06


def test_p_is_uniform_under_the_null(model):
    noise, smooth_noise = (compute_null_p_values(model, smooth=smooth) for smooth in (False, True))
    levels = np.arange(1, 20) / 20
    limit = stats.kstwo.ppf(0.99, TRIALS)
    orders = (noise[:, :1] <= levels + 1e-9).mean(axis=0)
    assert np.abs(orders - levels).max() < limit
    for p_values in (noise, smooth_noise):  # the null of copies is conservative
        shape = (p_values[:, 1:] <= levels + 1e-9).mean(axis=0)
        assert (shape - levels).max() < limit


def test_staged_p_value_is_valid_and_needs_fewer_samples():
    scores = torch.rand(20_000, 20, generator=torch.Generator().manual_seed(0))
    p_values, counts = [], []
    for score, *null in scores.tolist():
        remaining = list(null)

        def draw(count, seed, remaining=remaining):
            return torch.tensor([remaining.pop() for _ in range(count)])

        p_values.append(staged_p_value(score, draw))
        counts.append(19 - len(remaining))
        assert (p_values[-1] <= 0.05) is (score > max(null))
    for a in np.arange(1, 21) / 20:
        assert np.mean(np.array(p_values) <= a + 1e-9) <= a + 0.005
    assert set(counts) == {5, 19} and np.mean(counts) == pytest.approx(5 + 14 / 6, abs=0.2)


def test_true_contribution_map_is_significant(model):
    p_values = []
    for seed in range(10):
        image = make_blob_image(seed)
        with torch.no_grad():
            target = int(model(image).argmax())
            base = model.embed.bias.relu() @ model.head.weight.T  # logits of a mean-colour patch
            logits = model.embed(image).relu().permute(0, 2, 3, 1) @ model.head.weight.T - base
        values = (logits[..., target] - logits[..., 1 - target])[0]  # (8, 8): patch contributions
        p_values.append(compute_p_values(model, image, target, values))
    assert np.max(p_values, axis=0)[0] == pytest.approx(1 / (NUM_RANDOM_ORDERS + 1))
    assert np.median(p_values, axis=0)[1] <= 0.1  # copies with a small shift score as high


def test_reversed_order_has_the_opposite_score(model):
    maps = {"own": make_noise_map(0), "reverse": -make_noise_map(0)}
    curves = measure_perturbation_curves(
        model, make_blob_image(0), 0, maps, steps=4, random_orders=20
    )
    scores = curves.random_scores
    torch.testing.assert_close(scores[:10], -scores[10:])
    assert scores.std() > 1e-3
    assert curves.scores["own"] == pytest.approx(-curves.scores["reverse"], abs=1e-6)


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
    copies = draw_transformed_copies(values, 500, seed=1)
    assert copies.shape == (500, 3, 4) and set(copies.unique().tolist()) == set(range(12))
    assert any(torch.equal(item, values) for item in copies)
    # 3 x 5 shifts and 4 orientations; a square map has 8 orientations.
    assert len({tuple(item.flatten().tolist()) for item in copies}) == 3 * 5 * 4
    square = draw_transformed_copies(torch.arange(9.0).view(3, 3), 3000, seed=1)
    assert len({tuple(item.flatten().tolist()) for item in square}) == 3 * 3 * 8
    same = [draw_transformed_copies(values, 5, seed=3) for _ in range(2)]
    assert torch.equal(*same)


def test_transformed_maps_keep_neighbours_and_extend_the_border():
    values = torch.zeros(7, 7)
    values[3, 2:4] = 1
    for item in draw_transformed_copies(values, 50):
        cells = item.nonzero()
        extent = cells.max(0).values - cells.min(0).values
        assert len(cells) and extent.sum() == len(cells) - 1
    slope = torch.arange(5.0).expand(5, 5)
    for item in draw_transformed_copies(slope, 50):
        steps = torch.cat([item.diff(dim=0).flatten(), item.diff(dim=1).flatten()]).unique()
        assert set(steps.tolist()) <= {-1.0, 0.0, 1.0}
