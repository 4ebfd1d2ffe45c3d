"""Colours of patches compared with a plain SVD in float64, on models of all kinds."""

import numpy as np
import pytest
import torch

from tests.support.factories import (
    ATTENTION_MODELS,
    VIT,
    random_images,
    random_model,
    timm_spec,
)
from vitdemo.explain.forward_pass import trace
from vitdemo.explain.patch_components import colour_patches, fit_patch_axes

MODELS = {**ATTENTION_MODELS, "one layer": timm_spec(depth=1)}


def read_patches(spec, count=3):
    """Return the patch tokens (L, count, P, D) of random images after each layer."""
    model = random_model(spec)
    with torch.no_grad():
        return trace(model, random_images(model, count)).tokens[1:, :, model.num_prefix_tokens :]


def compute_reference(fitted, own):
    """Compute the colours (n, 3) of the tokens `own` (n, D) with axes of `fitted` (m, D)."""
    fitted, own = np.asarray(fitted, np.float64), np.asarray(own, np.float64)
    mean = fitted.mean(0)
    _, strengths, axes = np.linalg.svd(fitted - mean, full_matrices=False)
    colours = np.zeros((len(own), 3))
    for k in range(3):
        known = (fitted - mean) @ axes[k]
        sign = np.sign(known[np.abs(known).argmax()])
        low, high = np.percentile(sign * known, [2, 98])
        for i, token in enumerate(own):
            component = sign * (token - mean) @ axes[k]
            colours[i, k] = min(max((component - low) / (high - low), 0), 1)
    return colours, strengths[:3] ** 2 / (strengths**2).sum()


@pytest.mark.parametrize("name", MODELS)
def test_colours_equal_a_plain_svd(name):
    tokens = read_patches(MODELS[name])
    axes = fit_patch_axes(tokens.flatten(1, 2))
    other = read_patches(MODELS[name], 4)[:, 3]  # of an image that is not fitted
    colours = colour_patches(axes, other)
    assert colours.shape == (*other.shape[:2], 3)
    for layer, fitted in enumerate(tokens.flatten(1, 2)):
        expected, ratios = compute_reference(fitted, other[layer])
        np.testing.assert_allclose(colours[layer], expected, atol=1e-4)
        np.testing.assert_allclose(axes.ratios[layer], ratios, atol=1e-9)


def test_colours_do_not_depend_on_the_order_of_patches():
    tokens = read_patches(VIT).flatten(1, 2)
    order = torch.randperm(tokens.shape[1], generator=torch.Generator().manual_seed(2))
    shuffled = colour_patches(fit_patch_axes(tokens[:, order]), tokens)
    np.testing.assert_allclose(shuffled, colour_patches(fit_patch_axes(tokens), tokens), atol=1e-5)


def test_extreme_patches_do_not_determine_the_scale():
    tokens = torch.randn(1, 400, 8, generator=torch.Generator().manual_seed(0))
    tokens[0, 0] *= 50
    colours = colour_patches(fit_patch_axes(tokens), tokens)[0]
    assert colours[0, 0] in (0, 1)
    spread = colours[1:].quantile(0.75, dim=0) - colours[1:].quantile(0.25, dim=0)
    assert spread.min() > 0.2


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_components_without_variance_have_a_constant_colour(rank):
    generator = torch.Generator().manual_seed(rank)
    tokens = torch.randn(1, 30, rank, generator=generator) @ torch.randn(
        1, rank, 8, generator=generator
    )
    colours = colour_patches(fit_patch_axes(tokens + 3), tokens + 3)[0]
    assert (colours[:, rank:] == 0.5).all()
    assert all(len(colours[:, k].unique()) > 10 for k in range(rank))


def test_a_single_patch_has_a_colour():
    tokens = torch.randn(2, 1, 5)
    assert (colour_patches(fit_patch_axes(tokens), tokens) == 0.5).all()


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (torch.zeros(4, 8), "have shape"),
        (torch.zeros(2, 0, 8), "have shape"),
        (torch.zeros(2, 4, 2), "have shape"),
        (torch.full((2, 4, 8), float("nan")), "NaN"),
        (torch.full((2, 4, 8), float("inf")), "infinity"),
    ],
)
def test_unusable_tokens_are_named(tokens, message):
    with pytest.raises(ValueError, match=message):
        fit_patch_axes(tokens)


@pytest.mark.parametrize("shape", [(1, 6, 24), (3, 6, 23), (6, 24)])
def test_tokens_of_another_model_are_named(shape):
    axes = fit_patch_axes(read_patches(VIT).flatten(1, 2))  # 3 layers of width 24
    with pytest.raises(ValueError, match="not \\(3, n, 24\\)"):
        colour_patches(axes, torch.zeros(shape))
