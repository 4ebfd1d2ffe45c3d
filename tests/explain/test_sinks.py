"""`vitdemo.explain.sinks` against plain loops over heads, patches and images in numpy."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from tests.explain.test_attention import build_timm
from tests.support.factories import random_images
from vitdemo.explain.forward_pass import trace
from vitdemo.explain.qkv import compute_qkv
from vitdemo.explain.sinks import compare_images, compute_mean_directions, find_sinks

IMAGES = 4
KINDS = {
    "class token": {},
    "registers": {"reg_tokens": 4, "no_embed_class": True},
    "average pooled": {"class_token": False, "global_pool": "avg"},
}


def compute_cosine(first, second):
    return first @ second / np.sqrt((first @ first) * (second @ second))


@pytest.fixture(params=KINDS)
def layer(request):
    """Return attention (B, H, N, N) and values (B, H, N, D/H) of a layer, and the prefix."""
    model = build_timm(**KINDS[request.param]).double()
    found = trace(model, random_images(model, batch=IMAGES))
    _, _, values = compute_qkv(model, found.tokens[1], layer=1)
    return found.attention[1].detach(), values.detach(), model.num_prefix_tokens


def find_in_loops(attention, values, prefix):
    """Return patch, weight and ratio of the sink of one head: (N, N), (N, D/H)."""
    N = len(attention)
    received = [np.mean([attention[i, j] for i in range(N)]) for j in range(prefix, N)]
    patch = int(np.argmax(received))
    norms = [np.sqrt(np.sum(values[j] ** 2)) for j in range(prefix, N)]
    return patch, received[patch], norms[patch] / np.mean(norms)


def test_sinks_equal_loops_over_images_and_heads(layer):
    attention, values, prefix = layer
    found = find_sinks(*layer)
    assert found.patches.shape == attention.shape[:2] and len(found.patches.unique()) > 1
    for b in range(IMAGES):
        for h in range(attention.shape[1]):
            expected = find_in_loops(attention[b, h].numpy(), values[b, h].numpy(), prefix)
            own = [float(each[b, h]) for each in found[:3]]
            assert own == pytest.approx(expected, rel=1e-9)


def test_similarities_equal_loops_over_pairs_of_images(layer):
    attention, values, prefix = layer
    sinks = find_sinks(*layer)
    between_sinks = compare_images(sinks.directions)
    between_patches = compare_images(compute_mean_directions(values, prefix))
    v = values[:, :, prefix:].numpy()  # (B, H, P, D/H)
    pairs = [(a, b) for a in range(IMAGES) for b in range(IMAGES) if a != b]
    for h in range(attention.shape[1]):
        own = [v[b, h, int(sinks.patches[b, h])] for b in range(IMAGES)]
        expected = np.mean([compute_cosine(own[a], own[b]) for a, b in pairs])
        assert float(between_sinks[h]) == pytest.approx(expected, rel=1e-9)
        expected = np.mean(
            [compute_cosine(x, y) for a, b in pairs for x in v[a, h] for y in v[b, h]]
        )
        assert float(between_patches[h]) == pytest.approx(expected, rel=1e-9)


def test_a_patch_with_an_empty_value_is_a_sink_without_content():
    attention = torch.full((1, 5, 5), 0.1)
    attention[..., 3] = 0.6  # the patch 2, after one special token
    values = torch.ones(1, 5, 4)
    values[:, 3] = 0
    found = find_sinks(attention, values, 1)
    assert found.patches.tolist() == [2] and found.norm_ratios.tolist() == [0]
    assert_close(found.weights, torch.tensor([0.6]))


def test_the_same_value_in_all_images_has_the_similarity_one():
    values = torch.arange(1.0, 5).expand(3, 2, 6, 4)
    assert_close(compare_images(compute_mean_directions(values, 1)), torch.ones(2))
    assert_close(compare_images(torch.tensor([[[1.0, 0]], [[0, 1.0]]])), torch.zeros(1))
    with pytest.raises(ValueError, match="two images"):
        compare_images(values[:1, :, 0])
