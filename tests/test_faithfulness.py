"""`vitdemo.faithfulness` against curves worked one picture at a time, and tokens really removed.

The references share no code with it: patches are painted by slices, and dropped tokens are checked
against a sequence that is cut by hand.
"""

import pytest
import torch
from torch.testing import assert_close

from tests.test_attention import build_ours, build_timm, pictures
from tests.test_attributions import KINDS, build, build_convolutional
from vitdemo import faithfulness
from vitdemo.faithfulness import CENTRE, answers, area, band, centredness, measure, ranking
from vitdemo.models import ModelSpec, build_model

GRID = (4, 4)
NOTHING, WHOLE = torch.zeros(1, 16, dtype=torch.bool), torch.ones(1, 16, dtype=torch.bool)
OVERLAPPING = dict(patch_size=4, embed_dim=24, depth=1, num_heads=2, stem="conv")


def some_map(seed=0):
    return torch.rand(*GRID, generator=torch.Generator().manual_seed(seed)).double()


def painted(image, patches, fill, size=8):
    """A copy of `image` (1, 3, S, S) with `patches` (numbers) painted in `fill`'s pixels."""
    image = image.clone()
    for patch in patches:
        r, c = patch // GRID[1] * size, patch % GRID[1] * size
        image[:, :, r : r + size, c : c + size] = fill[:, :, r : r + size, c : c + size]
    return image


@torch.no_grad()
def reference_curves(model, image, target, values, fill):
    """Petsiuk et al. 2018 with one pass a step: (deletion, insertion) lists of P+1."""
    order = sorted(range(values.numel()), key=lambda p: -float(values.flatten()[p]))
    deletion, insertion = [], []
    for step in range(len(order) + 1):
        first, rest = order[:step], order[step:]
        for curve, gone in ((deletion, first), (insertion, rest)):
            curve.append(float(model(painted(image, gone, fill)).softmax(1)[0, target]))
    return torch.tensor([deletion, insertion], dtype=torch.float64)


def asked(make=lambda: build("class token")):
    """(model, one picture, a map), all in float64."""
    model = make()
    return model, pictures(model, batch=1).double(), some_map()


@pytest.mark.parametrize("fill", ["mean", "blur"])
@pytest.mark.parametrize("make", [lambda: build("class token"), build_convolutional])
def test_curves_equal_the_reference(fill, make):
    model, values = make(), some_map()
    image = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(1)).double()
    pixels = torch.zeros_like(image) if fill == "mean" else faithfulness.blur(image)
    expected = reference_curves(model, image, 2, values, pixels)
    found = measure(model, image, 2, {"own": values}, fill=fill, random_orders=1)
    assert_close(found.deletion["own"], expected[0])
    assert_close(found.insertion["own"], expected[1])
    places = ranking(centredness(*GRID).flatten())  # the same order without ties
    centre = reference_curves(model, image, 2, -places.double(), pixels)
    assert_close(found.deletion[CENTRE], centre[0])


def test_against_another_class_follows_the_two_alone():
    model, image, values = asked()
    found = measure(model, image, 3, {"own": values}, against=1, random_orders=2)
    with torch.no_grad():
        pair = model(image)[0, [3, 1]].softmax(0)
    assert_close(found.deletion["own"][0], pair[0])


def test_fewer_steps_are_points_of_the_whole_curve():
    model, image, values = asked()
    whole, few, most = (
        measure(model, image, 3, {"own": values}, fill="drop", steps=steps, random_orders=10)
        for steps in (None, 4, 99)
    )
    assert_close(few.deletion["own"], whole.deletion["own"][::4])
    assert_close(few.random_insertion, whole.random_insertion[:, ::4])
    assert few.shares.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert len(most.shares) == 17


def test_random_curves_follow_their_orders():
    model, image, values = asked()
    found = measure(model, image, 3, {"own": values}, random_orders=4, seed=5)
    for i, places in enumerate(faithfulness.random_rankings(4, 16, seed=5)):
        curves = reference_curves(model, image, 3, -places.double(), torch.zeros_like(image))
        assert_close(found.random_deletion[i], curves[0])
        assert_close(found.random_insertion[i], curves[1])


@pytest.mark.parametrize("which", [*KINDS, "ours"])
@torch.no_grad()
def test_dropped_tokens_equal_a_shortened_sequence(which):
    model, image, _ = asked(lambda: build_ours().double() if which == "ours" else build(which))
    sets = torch.rand(12, 16, generator=torch.Generator().manual_seed(0)) < 0.6
    logits, prefix = answers(model, image, sets, GRID, "drop"), model.num_prefix_tokens
    for stays, own in zip(sets, logits, strict=True):
        x = model._pos_embed(model.patch_embed(image))
        x = x[:, [*range(prefix), *(prefix + stays.nonzero()[:, 0])]]
        for block in model.blocks:
            x = block(x)
        assert_close(own, model.forward_head(model.norm(x))[0])
    assert logits.std(dim=0).min() > 1e-3
    assert_close(answers(model, image, WHOLE, GRID, "drop"), model(image))


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_no_patch_leaves_the_class_token_or_the_heads_leaning(kind):
    model = build(kind)
    first, second = pictures(model, batch=2).double().split(1)
    found = answers(model, first, NOTHING, GRID, "drop")
    assert found.isfinite().all()
    assert_close(found, answers(model, second, NOTHING, GRID, "drop"))
    if KINDS[kind][2]:
        zero = torch.zeros(1, model.embed_dim, dtype=torch.float64)
        assert_close(found, model.head(model.fc_norm(zero)))


def test_ties_fall_by_a_lot_that_is_the_same_each_time():
    flat = torch.zeros(64)
    first = ranking(flat)
    assert torch.equal(first, ranking(flat)) and not torch.equal(first, ranking(flat, seed=1))
    assert abs(float((first.double() * torch.arange(64)).mean()) - 31.5**2) < 150  # no raster
    half = torch.cat([torch.zeros(32), torch.ones(32)])
    assert sorted(ranking(half)[32:].tolist()) == list(range(32))


def test_random_rankings_are_permutations():
    orders = faithfulness.random_rankings(20, 9, seed=1)
    assert all(sorted(order) == list(range(9)) for order in orders.tolist())
    assert len({tuple(order) for order in orders.tolist()}) == 20
    assert faithfulness.random_rankings(0, 9).shape == (0, 9)
    assert len(faithfulness.random_rankings(3, 9)) == 3
    assert torch.equal(orders[10:], 8 - orders[:10])


def test_centre_comes_first():
    places = ranking(centredness(3, 5).flatten()).view(3, 5)
    assert places[1, 2] == 0
    assert {int(places[r, c]) for r in (0, 2) for c in (0, 4)} == {11, 12, 13, 14}


def test_resampled_keeps_its_own_grid_and_widens_a_smaller_one():
    maps = some_map()[None]
    assert faithfulness.resampled(maps, GRID) is maps
    wide = faithfulness.resampled(maps, (8, 8))
    assert wide.shape == (1, 8, 8)
    assert_close(wide[0, 0, 0], maps[0, 0, 0])


def test_area_and_band_by_hand():
    shares = torch.tensor([0.0, 0.5, 1.0])
    assert area(shares, torch.tensor([1.0, 0.5, 0.0])).item() == pytest.approx(0.5)
    assert area(shares, torch.tensor([[1.0, 0.0, 0.0]])).tolist() == pytest.approx([0.25])
    curves = torch.arange(21.0)[:, None] * torch.tensor([[1.0, 2.0]])
    found = band(curves)
    assert found.mean.tolist() == [10, 20]
    assert found.low.tolist() == [1, 2] and found.high.tolist() == [19, 38]


def test_blur_keeps_a_flat_picture_and_takes_stripes_away():
    flat = torch.full((1, 3, 32, 16), 0.7)
    assert_close(faithfulness.blur(flat), flat)
    stripes = torch.ones(1, 3, 32, 32)
    stripes[..., ::2] = -1
    assert faithfulness.blur(stripes).abs().max() < 0.2


@pytest.mark.parametrize("fill", faithfulness.FILLS)
def test_progress_and_cancel(fill):
    model, image, values = asked()
    calls, few = [], {"fill": fill, "steps": 4, "random_orders": 20}
    measure(model, image, 1, {"own": values}, on_step=lambda *call: calls.append(call), **few)
    done = [call[0] for call in calls]
    assert done == sorted(set(done)) and done[-1] == calls[0][1]

    def stop(done, total):
        raise InterruptedError

    with pytest.raises(InterruptedError):
        measure(model, image, 1, {"own": values}, on_step=stop, **few)


def test_each_set_of_patches_passes_once():
    model, image, own = asked()
    twice, calls = {"own": own, "same": own.clone()}, []
    measure(model, image, 1, twice, random_orders=2, on_step=lambda *call: calls.append(call))
    # own, centre, and an order and its reverse: 15 sets between the ends, there and back; the ends
    assert calls[-1][1] <= 2 * 2 * 15 + 2 * 15 + 2


def test_bad_values_are_named():
    plain, own = build_timm(), {"own": some_map()}
    stem = build_model(ModelSpec("vit", 16, options=OVERLAPPING), 5)

    def refused(message, model=plain, target=1, maps=own, **settings):
        with pytest.raises(ValueError, match=message):
            measure(model, torch.zeros(1, 3, 32, 32), target, maps, **settings)

    refused(r"'noise'.*drop, mean, blur, road\.", fill="noise")
    refused(
        "Narrow does not compute each token from a single patch", build_convolutional(), fill="drop"
    )
    refused("VisionTransformer does not compute each token", stem, fill="drop")
    refused(r"target 5 .* 0\.\.4", target=5)
    refused(r"target 9 .* 0\.\.4", against=9)
    refused("steps is 0", steps=0)
    refused("one shape", maps={**own, "other": torch.zeros(2, 2)})
    refused("at least one map", maps={})
    refused("NaN", maps={"own": torch.full(GRID, torch.nan)})
