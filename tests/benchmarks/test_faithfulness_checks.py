"""Imputation and SaCo."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from benchmarks.faithfulness_checks.imputation import impute_patches
from benchmarks.faithfulness_checks.saco import assign_groups, compute_saco, saco_coefficient
from tests.explain.test_attention import build_timm
from tests.support.factories import random_images
from vitdemo.explain.faithfulness import measure_perturbation_curves, predict_patch_sets


def test_imputed_pixel_is_the_weighted_mean_of_its_neighbours():
    image = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    patches = torch.rand(1, 64, generator=torch.Generator().manual_seed(1)) < 0.5
    imputed = impute_patches(image, patches, (8, 8))[0].double()
    kept = patches.view(8, 8).repeat_interleave(4, 0).repeat_interleave(4, 1)
    assert torch.equal(imputed[:, kept].float(), image[0][:, kept])
    # Weights of the neighbours inside the image (Rong et al. 2022): 1/6, and 1/12 diagonally.
    weights = torch.tensor([[1.0, 2, 1], [2, 0, 2], [1, 2, 1]]).double()[None, None] / 12
    total = F.conv2d(imputed[:, None], weights, padding=1)[:, 0]
    inside = F.conv2d(torch.ones(1, 1, 32, 32).double(), weights, padding=1)[0]
    errors = (imputed - total / inside)[:, ~kept].abs().amax(dim=0)
    assert 0.001 < errors.mean() < 0.03  # only the added noise


def test_imputation_restores_a_gradient_in_a_large_image():
    slope = torch.linspace(-1, 1, 112).expand(1, 3, 112, 112)
    kept = torch.ones(1, 49, dtype=torch.bool)
    kept[0, [16, 24, 32]] = False
    imputed = impute_patches(slope, kept, (7, 7))
    assert (imputed - slope).abs().max() < 0.15
    removed = ~kept.view(7, 7).repeat_interleave(16, 0).repeat_interleave(16, 1)
    assert (imputed - slope)[0][:, removed].abs().mean() < 0.03
    empty = impute_patches(slope, torch.zeros_like(kept), (7, 7))
    assert empty.abs().max() < 0.1  # the mean colour with noise
    assert torch.equal(impute_patches(slope, torch.ones_like(kept), (7, 7)), slope)


def test_saco_equals_hand_computed_values():
    cost = torch.tensor([0.3, 0.1, 0.2])
    # pairs: 5-2 agrees, 5-1 agrees, 2-1 does not: (3 + 4 - 1) / 8
    assert saco_coefficient(torch.tensor([5.0, 2.0, 1.0]), cost) == pytest.approx(6 / 8)
    assert saco_coefficient(torch.tensor([5.0, 2.0, 1.0]), torch.tensor([3.0, 2, 1])) == 1
    assert saco_coefficient(torch.tensor([5.0, 2.0, 1.0]), torch.tensor([1.0, 2, 3])) == -1
    assert np.isnan(saco_coefficient(torch.ones(3), cost))
    assert assign_groups(torch.arange(6.0), 3).tolist() == [2, 2, 1, 1, 0, 0]


@torch.no_grad()
def test_saco_removes_each_group_separately():
    model = build_timm().double()
    image = random_images(model, batch=1)
    values = torch.rand(4, 4, generator=torch.Generator().manual_seed(0)).double()
    groups = values.flatten().argsort(descending=True).view(4, 4)
    kept = torch.ones(4, 16, dtype=torch.bool).scatter(1, groups, False)
    probabilities = predict_patch_sets(model, image, kept, (4, 4), "drop").softmax(1)[:, 1]
    cost = model(image).softmax(1)[0, 1] - probabilities
    expected = saco_coefficient(values.flatten()[groups].sum(1), cost)
    coefficients = compute_saco(
        model, image, 1, {"own": values, "reverse": -values}, fill="drop", groups=4
    )
    assert coefficients["own"] == pytest.approx(expected)
    assert coefficients["reverse"] == pytest.approx(-expected)


@torch.no_grad()
def test_imputation_replaces_the_patches_of_perturbation_curves():
    model = build_timm().double()
    image = random_images(model, batch=1)
    kept = torch.rand(3, 16, generator=torch.Generator().manual_seed(0)) < 0.5
    logits = predict_patch_sets(model, image, kept, (4, 4), impute_patches)
    assert torch.equal(logits, model(impute_patches(image, kept, (4, 4))))
    values = {"own": torch.arange(16.0).view(4, 4)}
    road = measure_perturbation_curves(model, image, 1, values, fill=impute_patches, steps=4)
    mean = measure_perturbation_curves(model, image, 1, values, fill="mean", steps=4)
    assert road.deletion["own"][0] == mean.deletion["own"][0]  # no patch is removed yet
    assert road.deletion["own"][1] != mean.deletion["own"][1]
