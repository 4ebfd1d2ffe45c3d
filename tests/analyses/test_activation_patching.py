"""Activation patching of runs: maps, curves and single predictions, and unsuitable models."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import scipy
import torch

from tests.support.factories import (
    RESNET,
    TIMM_KINDS,
    VIT,
    make_context,
    make_run,
    noise,
    timm_spec,
)
from vitdemo import runs
from vitdemo.analyses.activation_patching import (
    RANDOM_DRAWS,
    choose_classes,
    choose_other_photo,
    compute_patching,
    find_cached_patching,
    find_group_side,
    load_image_pair,
    patch_image,
)
from vitdemo.cache import Cache
from vitdemo.data.photos import example_files, load_example_squares
from vitdemo.errors import ImageError, RunError, Stopped
from vitdemo.explain.patching import draw_random_masks

FIRST, SECOND = noise(1), noise(2, size=(90, 33))  # of different sizes
KINDS = {"vit": VIT, "one layer": timm_spec(depth=1), **TIMM_KINDS}


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    root = tmp_path_factory.mktemp("patching")
    for name, spec in KINDS.items():
        make_run(root / name, spec)
    make_run(root / "resnet", RESNET)
    make_run(root / "one class", classes=("cat",))
    make_run(root / "broken")
    weights = runs.load_model(runs.read_run(root / "broken")).state_dict()
    weights["head.bias"][:] = float("nan")
    runs.write_weights(root / "broken", weights)
    return make_context(root)


def load_pair(context, name="vit", other=SECOND):
    return load_image_pair(context, context.find_run(name), FIRST, other)


@pytest.mark.parametrize("name", KINDS)
def test_maps_and_curves_equal_single_predictions(context, name):
    pair = load_pair(context, name)
    found, p, L = (
        compute_patching(context, pair),
        pair.first.num_prefix_tokens,
        len(pair.first.tokens),
    )
    a, b = pair.classes
    first, second = (each.numpy() for each in pair.logits)
    assert a != b and found.side == 1 and found.maps.shape == (L, 4, 4)

    def compute_share(layer, tokens):
        probabilities = patch_image(context, pair, layer, tokens).probabilities
        change = np.log(probabilities[b] / probabilities[a]) - (first[b] - first[a])
        return change / ((second[b] - second[a]) - (first[b] - first[a]))

    sets = {"class token": [0], "special tokens": range(p), "patches": range(p, p + 16)}
    assert found.curves.keys() <= sets.keys()
    halves = draw_random_masks(context.load_model(pair.run), 8, RANDOM_DRAWS)
    for layer in range(L):
        shares = [compute_share(layer, [p + patch]) for patch in range(16)]
        np.testing.assert_allclose(found.maps[layer].ravel(), shares, atol=1e-4)
        for each, values in found.curves.items():
            assert values[layer] == pytest.approx(compute_share(layer, sets[each]), abs=1e-4)
        random = [compute_share(layer, mask.nonzero()[:, 0].tolist()) for mask in halves]
        np.testing.assert_allclose(found.random[layer], random, atol=1e-4)


@pytest.mark.parametrize("name", KINDS)
def test_curves_begin_and_end_at_0_and_1(context, name):
    pair = load_pair(context, name)
    curves = compute_patching(context, pair).curves
    is_pooled = not pair.first.reads_class_token
    assert curves["patches"][-1] == pytest.approx(float(is_pooled), abs=1e-5)
    if not is_pooled:
        assert curves[[*curves][-2]][-1] == pytest.approx(1, abs=1e-5)  # all special tokens
    everything = range(pair.first.tokens.shape[1])
    for layer in range(len(pair.first.tokens)):
        found = patch_image(context, pair, layer, everything)
        assert found.share == pytest.approx(1, abs=1e-4) and found.random == ()
        np.testing.assert_allclose(found.probabilities, pair.probabilities[1], atol=1e-5)
        found = patch_image(context, pair, layer, ())
        assert found.share == pytest.approx(0, abs=1e-4) and found.random == ()
        np.testing.assert_allclose(found.probabilities, pair.probabilities[0], atol=1e-5)


def test_the_same_image_twice_gives_0(context):
    pair = load_pair(context, other=FIRST)
    assert not pair.has_change and pair.predicted[0] == pair.predicted[1]
    found = compute_patching(context, pair)
    for values in (found.maps, found.random, *found.curves.values()):
        assert (values == 0).all()
    assert patch_image(context, pair, 1, [0, 3]).share == 0


def test_random_patches_are_as_many_as_the_replaced_tokens(context):
    pair = load_pair(context)
    one = patch_image(context, pair, 1, [0])
    maps = compute_patching(context, pair).maps
    assert len(one.random) == RANDOM_DRAWS
    for share in one.random:  # shares of single patches
        assert np.abs(maps[1] - share).min() < 1e-4
    assert patch_image(context, pair, 1, [3, 3, 0]).tokens == (0, 3)
    assert patch_image(context, pair, 1, range(1, 17)).random == ()


def test_classes_are_the_predictions_or_differ_most_from_them():
    first, second = np.array([3.0, 1, 0, 0]), np.array([0.0, 1, 0, 4])
    assert choose_classes(first, second) == (0, 3)
    # Both predict class 0; relative to it, class 2 changes by 4 and class 1 by 1.
    assert choose_classes(first, np.array([5.0, 4, -2, 2])) == (0, 2)
    assert choose_classes(first, first)[0] == 0
    assert choose_classes(first, first)[1] != 0


def test_groups_keep_maps_small():
    sides = [
        find_group_side(grid) for grid in ((8, 8), (14, 14), (9, 7), (16, 16), (24, 24), (1, 1))
    ]
    assert sides == [1, 2, 1, 2, 3, 1]


def test_groups_of_patches_are_replaced_together(context, monkeypatch):
    monkeypatch.setattr("vitdemo.analyses.activation_patching.MAX_GROUPS", 4)
    pair = load_pair(context, other=noise(3))
    found = compute_patching(context, pair)
    assert found.side == 2 and found.maps.shape == (4, 2, 2)
    share = patch_image(context, pair, 2, [1 + patch for patch in (2, 3, 6, 7)]).share
    assert found.maps[2, 0, 1] == pytest.approx(share, abs=1e-4)


def test_a_stop_leaves_nothing_in_the_cache(context):
    pair, steps = load_pair(context, other=noise(4)), []

    def stop(done, total):
        steps.append((done, total))
        if len(steps) == 3:
            raise Stopped

    with pytest.raises(Stopped):
        compute_patching(context, pair, stop)
    assert find_cached_patching(context, pair) is None
    steps.clear()
    found = compute_patching(context, pair, lambda *step: steps.append(step))
    assert find_cached_patching(context, pair) is found
    assert compute_patching(context, pair, stop) is found  # without a step
    totals = {total for _, total in steps}
    assert len(totals) == 1 and steps[-1] == (*totals, *totals)
    assert [done for done, _ in steps] == sorted({done for done, _ in steps})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resnet", "'resnet' has no attention heads"),
        ("one class", "only the class 'cat'"),
        ("broken", "'broken' predicts NaN"),
    ],
)
def test_unsuitable_models_are_named(context, name, message):
    with pytest.raises(RunError, match=message):
        load_pair(context, name)


def test_models_without_classes_are_rejected(context):
    run = context.find_run("vit")
    without = SimpleNamespace(name=run.name, classes=())
    without.require_classes = partial(runs.Run.require_classes, without)
    with pytest.raises(RunError, match="predicts no classes"):
        load_image_pair(context, without, FIRST, SECOND)


def test_unknown_layers_and_tokens_are_rejected(context):
    pair = load_pair(context)
    for layer in (-1, 4):
        with pytest.raises(ValueError, match=f"after layer {layer}"):
            patch_image(context, pair, layer, [0])
    for token in (-1, 17):
        with pytest.raises(ValueError, match=f"no token {token}"):
            patch_image(context, pair, 1, [token])


@torch.no_grad()
def test_probabilities_are_those_of_the_model(context):
    pair = load_pair(context)
    for image, expected in zip((FIRST, SECOND), pair.probabilities, strict=True):
        probabilities = context.predict(pair.run, image).probabilities
        np.testing.assert_allclose(expected, probabilities, atol=1e-6)
    logits = pair.logits[1].numpy()
    np.testing.assert_allclose(scipy.special.softmax(logits), pair.probabilities[1], atol=1e-6)


def test_the_other_photo_has_another_prediction_if_possible(context, monkeypatch):
    run, squares = context.find_run("vit"), load_example_squares()
    classes = [int(context.predict(run, each).probabilities.argmax()) for each in squares]
    for own, square in enumerate(squares):
        chosen = example_files().index(choose_other_photo(context, run, square))
        assert chosen != own
        assert classes[chosen] != classes[own] or {*classes} == {classes[own]}
    name = "vitdemo.analyses.activation_patching.example_files"
    monkeypatch.setattr(name, lambda: [])
    monkeypatch.setattr(context, "cache", Cache(2**20))
    monkeypatch.setattr(name.replace("example_files", "load_example_squares"), lambda: [])
    with pytest.raises(ImageError, match="no second example photo"):
        choose_other_photo(context, run, FIRST)
