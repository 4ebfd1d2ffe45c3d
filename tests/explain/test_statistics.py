"""Attention distance and entropy against plain loops in float64, on four kinds of model."""

import math

import pytest
import torch

from tests.support.factories import TIMM_KINDS, random_model
from vitdemo.explain.forward_pass import trace
from vitdemo.explain.statistics import (
    entropy,
    largest_weight,
    mean_attention_distance,
    softmax_without_scale,
    token_similarity,
)


def reference_distance(rows, grid, p):
    """Return the mean attention distance of one head from `rows`, a nested list (N, N)."""
    means = []
    for i, row in enumerate(rows[p:]):
        total = weighted = 0.0
        for j, weight in enumerate(row[p:]):
            vertical, horizontal = i // grid[1] - j // grid[1], i % grid[1] - j % grid[1]
            weighted += weight * math.hypot(vertical, horizontal)
            total += weight
        means.append(weighted / total)
    return sum(means) / len(means)


def reference_entropy(rows):
    return sum(-sum(w * math.log2(w) for w in row if w > 0) for row in rows) / len(rows)


def apply_per_head(attention, reference):
    """Return `reference` of every head of (L, B, H, N, N), as (L, B, H)."""
    values = [reference(head.tolist()) for head in attention.flatten(0, 2)]
    return torch.tensor(values, dtype=torch.float64).reshape(attention.shape[:3])


@pytest.mark.parametrize("kind", TIMM_KINDS)
def test_distance_and_entropy_equal_the_reference(kind):
    model = random_model(TIMM_KINDS[kind]).double()
    images = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(1)).double()
    with torch.no_grad():
        attention = trace(model, images).attention  # (L, B, H, N, N)
    grid, p = model.patch_embed.grid_size, model.num_prefix_tokens
    distances = mean_attention_distance(attention, grid, p)
    for actual, reference in (
        (distances, lambda rows: reference_distance(rows, grid, p)),
        (entropy(attention), reference_entropy),
    ):
        expected = apply_per_head(attention, reference)
        torch.testing.assert_close(actual, expected, atol=1e-9, rtol=1e-9)
        assert expected.std() > 0.01  # otherwise the heads hardly differ


def test_unscaled_attention_is_the_softmax_of_the_products():
    products = 6 * torch.randn(2, 3, 5, 5, generator=torch.Generator().manual_seed(0)).double()
    attention = (0.25 * products).softmax(-1)
    torch.testing.assert_close(softmax_without_scale(attention, 0.25), products.softmax(-1))
    largest = largest_weight(attention)
    assert largest.shape == (2, 3)
    rows = [[max(row) for row in head] for head in attention[0].tolist()]
    assert largest[0].tolist() == pytest.approx([sum(head) / 5 for head in rows])
    # Zeros stay zeros.
    assert softmax_without_scale(torch.eye(4), 0.1).tolist() == torch.eye(4).tolist()


def test_distance_supports_rectangular_patch_grids():
    right = torch.eye(6).roll(1, dims=1)  # on 2 x 3: 0 -> 1 -> 2 -> 3 -> 4 -> 5 -> 0
    hops = [1, 1, math.sqrt(5), 1, 1, math.sqrt(5)]
    assert mean_attention_distance(right[None], (2, 3), 0).item() == pytest.approx(sum(hops) / 6)


def test_attention_to_self_or_class_token_has_distance_zero():
    itself, to_class_token = torch.eye(5)[None], torch.zeros(1, 5, 5)
    to_class_token[..., 0] = 1
    for attention in (itself, to_class_token):
        assert mean_attention_distance(attention, (2, 2), 1).item() == 0
        assert entropy(attention).item() == 0


@pytest.mark.parametrize(("grid", "prefix"), [((2, 3), 1), ((2, 2), 0), ((2, 3), -1)])
def test_distance_rejects_a_mismatched_grid(grid, prefix):
    with pytest.raises(ValueError, match=rf"{prefix} special tokens and 2 x {grid[1]}.* 5 tokens"):
        mean_attention_distance(torch.full((1, 5, 5), 0.2), grid, prefix)


def test_token_similarity_is_the_cosine():
    tokens = torch.tensor([[[1.0, 0.0], [3.0, 0.0], [0.0, 2.0], [-1.0, 0.0], [0.0, 0.0]]])
    expected = torch.tensor(
        [[1, 1, 0, -1, 0], [1, 1, 0, -1, 0], [0, 0, 1, 0, 0], [-1, -1, 0, 1, 0], [0, 0, 0, 0, 0.0]]
    )
    torch.testing.assert_close(token_similarity(tokens)[0], expected)
