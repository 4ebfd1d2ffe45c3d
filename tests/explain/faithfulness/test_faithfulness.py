"""Faithfulness against curves computed one image at a time and shortened sequences.

The references share no code with it: patches are painted by slices, and dropped tokens are compared
with a sequence that does not contain them.
"""

from functools import partial

import pytest
import torch
from torch.testing import assert_close

from tests.explain.test_attention import build_ours, build_timm
from tests.explain.test_attributions import KINDS, build_convolutional, build_kind
from tests.support.factories import random_images
from vitdemo.explain import faithfulness
from vitdemo.explain.faithfulness import (
    CENTRE_BASELINE,
    area_under_curve,
    centre_map,
    compute_band,
    measure_perturbation_curves,
    predict_patch_sets,
    rank_by_value,
)
from vitdemo.models import ModelSpec, build_model

GRID = (4, 4)
NO_PATCHES, ALL_PATCHES = torch.zeros(1, 16, dtype=torch.bool), torch.ones(1, 16, dtype=torch.bool)
CONV_STEM_OPTIONS = dict(patch_size=4, embed_dim=24, depth=1, num_heads=2, stem="conv")


def random_map(seed=0):
    return torch.rand(*GRID, generator=torch.Generator().manual_seed(seed)).double()


def paint_patches(image, patches, fill, size=8):
    """Return a copy of `image` (1, 3, S, S) with the pixels of `fill` in `patches` (indices)."""
    image = image.clone()
    for patch in patches:
        r, c = patch // GRID[1] * size, patch % GRID[1] * size
        image[:, :, r : r + size, c : c + size] = fill[:, :, r : r + size, c : c + size]
    return image


@torch.no_grad()
def reference_curves(model, image, target, values, fill):
    """Compute deletion and insertion (2, P+1) by Petsiuk et al. 2018, one pass per step."""
    order = sorted(range(values.numel()), key=lambda p: -float(values.flatten()[p]))
    deletion, insertion = [], []
    for step in range(len(order) + 1):
        first, remaining = order[:step], order[step:]
        for curve, removed in ((deletion, first), (insertion, remaining)):
            curve.append(float(model(paint_patches(image, removed, fill)).softmax(1)[0, target]))
    return torch.tensor([deletion, insertion], dtype=torch.float64)


def make_inputs(build=lambda: build_kind("class token")):
    """Return a model, one image and a map, all in float64."""
    model = build()
    return model, random_images(model, batch=1), random_map()


@pytest.mark.parametrize("fill", ["mean", "blur"])
@pytest.mark.parametrize("build", [lambda: build_kind("class token"), build_convolutional])
def test_curves_equal_the_reference(fill, build):
    model, values = build(), random_map()
    image = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(1)).double()
    pixels = torch.zeros_like(image) if fill == "mean" else faithfulness.blur_image(image)
    expected = reference_curves(model, image, 2, values, pixels)
    curves = measure_perturbation_curves(
        model, image, 2, {"own": values}, fill=fill, random_orders=1
    )
    assert_close(curves.deletion["own"], expected[0])
    assert_close(curves.insertion["own"], expected[1])
    ranks = rank_by_value(centre_map(*GRID).flatten())  # the same order without ties
    centre = reference_curves(model, image, 2, -ranks.double(), pixels)
    assert_close(curves.deletion[CENTRE_BASELINE], centre[0])


def test_contrast_curve_uses_only_the_two_classes():
    model, image, values = make_inputs()
    curves = measure_perturbation_curves(
        model, image, 3, {"own": values}, against=1, random_orders=2
    )
    with torch.no_grad():
        pair = model(image)[0, [3, 1]].softmax(0)
    assert_close(curves.deletion["own"][0], pair[0])


def test_fewer_steps_are_points_of_the_full_curve():
    model, image, values = make_inputs()
    measure = partial(measure_perturbation_curves, model, image, 3, {"own": values}, fill="drop")
    full, few, many = (measure(steps=steps, random_orders=10) for steps in (None, 4, 99))
    assert_close(few.deletion["own"], full.deletion["own"][::4])
    assert_close(few.random_insertion, full.random_insertion[:, ::4])
    assert few.fractions.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert len(many.fractions) == 17


def test_random_curves_equal_the_reference():
    model, image, values = make_inputs()
    result = measure_perturbation_curves(model, image, 3, {"own": values}, random_orders=4, seed=5)
    for i, ranks in enumerate(faithfulness.draw_random_rankings(4, 16, seed=5)):
        curves = reference_curves(model, image, 3, -ranks.double(), torch.zeros_like(image))
        assert_close(result.random_deletion[i], curves[0])
        assert_close(result.random_insertion[i], curves[1])


@pytest.mark.parametrize("which", [*KINDS, "ours"])
@torch.no_grad()
def test_dropped_tokens_equal_a_shortened_sequence(which):
    model, image, _ = make_inputs(
        lambda: build_ours().double() if which == "ours" else build_kind(which)
    )
    sets = torch.rand(12, 16, generator=torch.Generator().manual_seed(0)) < 0.6
    logits, prefix = predict_patch_sets(model, image, sets, GRID, "drop"), model.num_prefix_tokens
    for kept, row in zip(sets, logits, strict=True):
        x = model._pos_embed(model.patch_embed(image))
        x = x[:, [*range(prefix), *(prefix + kept.nonzero()[:, 0])]]
        for block in model.blocks:
            x = block(x)
        assert_close(row, model.forward_head(model.norm(x))[0])
    assert logits.std(dim=0).min() > 1e-3
    assert_close(predict_patch_sets(model, image, ALL_PATCHES, GRID, "drop"), model(image))


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_logits_without_patches_do_not_depend_on_the_image(kind):
    model = build_kind(kind)
    first, second = random_images(model).split(1)
    logits = predict_patch_sets(model, first, NO_PATCHES, GRID, "drop")
    assert logits.isfinite().all()
    assert_close(logits, predict_patch_sets(model, second, NO_PATCHES, GRID, "drop"))
    if KINDS[kind][2]:
        zero = torch.zeros(1, model.embed_dim, dtype=torch.float64)
        assert_close(logits, model.head(model.fc_norm(zero)))


def test_ties_are_broken_randomly_with_a_fixed_seed():
    flat = torch.zeros(64)
    first = rank_by_value(flat)
    assert torch.equal(first, rank_by_value(flat))
    assert not torch.equal(first, rank_by_value(flat, seed=1))
    assert abs(float((first.double() * torch.arange(64)).mean()) - 31.5**2) < 150  # no raster
    half = torch.cat([torch.zeros(32), torch.ones(32)])
    assert sorted(rank_by_value(half)[32:].tolist()) == list(range(32))


def test_random_rankings_are_permutations():
    orders = torch.stack(faithfulness.draw_random_rankings(20, 9, seed=1))
    assert all(sorted(order) == list(range(9)) for order in orders.tolist())
    assert len({tuple(order) for order in orders.tolist()}) == 20
    assert [len(faithfulness.draw_random_rankings(n, 9)) for n in (0, 3)] == [0, 3]
    assert torch.equal(orders[10:], 8 - orders[:10])


def test_centredness_ranks_the_centre_first():
    ranks = rank_by_value(centre_map(3, 5).flatten()).view(3, 5)
    assert ranks[1, 2] == 0
    assert {int(ranks[r, c]) for r in (0, 2) for c in (0, 4)} == {11, 12, 13, 14}


def test_resampling_keeps_an_equal_grid_and_enlarges_a_smaller_one():
    maps = random_map()[None]
    assert faithfulness.resample_maps(maps, GRID) is maps
    wide = faithfulness.resample_maps(maps, (8, 8))
    assert wide.shape == (1, 8, 8)
    assert_close(wide[0, 0, 0], maps[0, 0, 0])


def test_area_and_band_equal_hand_computed_values():
    fractions = torch.tensor([0.0, 0.5, 1.0])
    curves = torch.tensor([[1.0, 0.5, 0.0], [1.0, 0.0, 0.0]])
    assert area_under_curve(fractions, curves).tolist() == pytest.approx([0.5, 0.25])
    curves = torch.arange(21.0)[:, None] * torch.tensor([[1.0, 2.0]])
    assert compute_band(curves).tolist() == [[10, 20], [1, 2], [19, 38]]


def test_blur_keeps_a_uniform_image_and_removes_stripes():
    flat = torch.full((1, 3, 32, 16), 0.7)
    assert_close(faithfulness.blur_image(flat), flat)
    stripes = torch.ones(1, 3, 32, 32)
    stripes[..., ::2] = -1
    assert faithfulness.blur_image(stripes).abs().max() < 0.2


@pytest.mark.parametrize("fill", faithfulness.FILLS)
def test_progress_increases_and_a_callback_cancels(fill):
    model, image, values = make_inputs()
    calls, options = [], {"fill": fill, "steps": 4, "random_orders": 20}
    measure_perturbation_curves(
        model, image, 1, {"own": values}, on_step=lambda *call: calls.append(call), **options
    )
    done = [call[0] for call in calls]
    assert done == sorted(set(done)) and done[-1] == calls[0][1]

    def stop(done, total):
        raise InterruptedError

    with pytest.raises(InterruptedError):
        measure_perturbation_curves(model, image, 1, {"own": values}, on_step=stop, **options)


def test_each_set_of_patches_is_evaluated_once():
    model, image, values = make_inputs()
    maps, calls = {"own": values, "same": values.clone()}, []
    measure_perturbation_curves(
        model, image, 1, maps, random_orders=2, on_step=lambda *call: calls.append(call)
    )
    # Two maps in both directions and an order with its reverse, 15 sets each; and both ends.
    assert calls[-1][1] <= 2 * 2 * 15 + 2 * 15 + 2


def test_errors_name_invalid_values():
    vit, valid_maps = build_timm(), {"own": random_map()}
    stem = build_model(ModelSpec("vit", 16, options=CONV_STEM_OPTIONS), 5)

    def check(message, model=vit, target=1, maps=valid_maps, **settings):
        with pytest.raises(ValueError, match=message):
            measure_perturbation_curves(model, torch.zeros(1, 3, 32, 32), target, maps, **settings)

    check(r"'noise'.*drop, mean, blur\.", fill="noise")
    check("ConvNet does not compute each token", build_convolutional(), fill="drop")
    check("VisionTransformer does not compute each token from a single patch", stem, fill="drop")
    check(r"target 5 .* 0\.\.4", target=5)
    check(r"target 9 .* 0\.\.4", against=9)
    check("steps is 0", steps=0)
    check("one shape", maps={**valid_maps, "other": torch.zeros(2, 2)})
    check("at least one map", maps={})
    check("NaN", maps={"own": torch.full(GRID, torch.nan)})
