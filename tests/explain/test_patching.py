"""Activation patching compared with plain loops over the blocks in float64."""

import copy
import math

import pytest
import torch
from torch.testing import assert_close

from tests.support.factories import ATTENTION_MODELS, VIT, random_images, random_model, timm_spec
from vitdemo.explain.forward_pass import trace
from vitdemo.explain.patching import (
    build_patch_masks,
    build_token_masks,
    compute_logit_shares,
    compute_patched_logits,
    draw_random_masks,
)

ONE_LAYER = timm_spec(depth=1)
MODELS = {**ATTENTION_MODELS, "one layer": ONE_LAYER}


@pytest.fixture(params=MODELS)
def model(request):
    return random_model(MODELS[request.param]).double()


def run_reference_block(block, x):
    """Compute a block's output (N, D) for the tokens (N, D), head by head and query by query."""
    attn, normed = block.attn, block.norm1(x)
    N, D = x.shape
    H = attn.num_heads
    weight, bias = attn.qkv.weight, attn.qkv.bias
    projected = normed @ weight.T + (0 if bias is None else bias)  # (N, 3 D)
    output = torch.zeros(N, D, dtype=x.dtype)
    for h in range(H):
        columns = [slice(i * D + h * D // H, i * D + (h + 1) * D // H) for i in range(3)]
        q, k, v = (projected[:, each] for each in columns)
        if getattr(attn, "q_norm", None) is not None:
            q, k = attn.q_norm(q), attn.k_norm(k)
        for n in range(N):
            powers = [math.exp(float(q[n] @ k[m]) / math.sqrt(D // H)) for m in range(N)]
            output[n, columns[0]] = sum(p * v[m] for m, p in enumerate(powers)) / sum(powers)
    update = attn.proj(output)
    x = x + (block.ls1(update) if hasattr(block, "ls1") else update)
    update = block.mlp(block.norm2(x))
    return x + (block.ls2(update) if hasattr(block, "ls2") else update)


def compute_reference_logits(model, images, mask, layer):
    """Compute the logits (C,) from pixels: both images up to `layer`, then the mixed tokens."""
    first, second = model._pos_embed(model.patch_embed(images))  # two of (N, D)
    for block in model.blocks[:layer]:
        first, second = run_reference_block(block, first), run_reference_block(block, second)
    x = torch.stack([second[n] if mask[n] else first[n] for n in range(len(first))])
    for block in model.blocks[layer:]:
        x = run_reference_block(block, x)
    return model.forward_head(model.norm(x[None]))[0]


def choose_masks(model):
    """Return three masks (3, N): the first token, two patches, and every second token."""
    N = model.num_prefix_tokens + model.patch_embed.num_patches
    places = torch.arange(N)
    return torch.stack([places == 0, places >= N - 2, places % 2 == 0])


@torch.no_grad()
def test_patched_logits_equal_plain_loops_over_the_blocks(model):
    images, masks = random_images(model), choose_masks(model)
    tokens = trace(model, images).tokens  # (L+1, 2, N, D)
    for layer in range(len(model.blocks) + 1):
        found = compute_patched_logits(model, *tokens[layer], masks, layer)
        expected = [compute_reference_logits(model, images, mask, layer) for mask in masks]
        assert_close(found, torch.stack(expected), atol=1e-9, rtol=0)


@torch.no_grad()
def test_all_tokens_give_the_second_image_and_no_token_the_first(model):
    images = random_images(model)
    weights = copy.deepcopy(model.state_dict())
    found = trace(model, images)
    N = found.tokens.shape[2]
    masks = torch.tensor([[False] * N, [True] * N])
    assert (found.logits[0] - found.logits[1]).abs().max() > 1e-3
    for layer, pair in enumerate(found.tokens):
        logits = compute_patched_logits(model, *pair, masks, layer)
        assert_close(logits, found.logits, atol=1e-12, rtol=0)
        same = compute_patched_logits(model, pair[0], pair[0], masks, layer)
        assert_close(same, found.logits[[0, 0]], atol=1e-12, rtol=0)
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())


@torch.no_grad()
def test_only_tokens_of_the_classifier_matter_after_the_last_layer(model):
    images, sets = random_images(model), build_token_masks(model)
    found = trace(model, images)
    last = len(model.blocks)
    logits = {
        name: compute_patched_logits(model, *found.tokens[last], mask[None], last)[0]
        for name, mask in sets.items()
    }
    from_patches = model.global_pool == "avg" if hasattr(model, "global_pool") else False
    read, unread = found.logits[1], found.logits[0]
    assert_close(logits["patches"], read if from_patches else unread, atol=1e-12, rtol=0)
    if not from_patches:
        name = "special tokens" if "special tokens" in logits else "class token"
        assert_close(logits[name], read, atol=1e-12, rtol=0)


def test_share_is_the_normalised_difference_of_two_logits():
    first, second = torch.tensor([2.0, 0.0, 9.0]), torch.tensor([0.0, 2.0, -9.0])
    logits = torch.tensor([[2.0, 0.0, 5.0], [0.0, 2.0, 5.0], [1.0, 0.0, 5.0], [0.0, 6.0, 5.0]])
    found = compute_logit_shares(logits, first, second, torch.tensor([0, 1]))
    assert_close(found, torch.tensor([0.0, 1.0, 0.25, 2.0]))
    assert_close(compute_logit_shares(logits, first, second, torch.tensor([1, 0])), found)


def test_share_of_equal_images_is_zero():
    logits = torch.tensor([[2.0, 0.0], [1.0, 5.0]])
    same = torch.tensor([2.0, 0.0])
    assert compute_logit_shares(logits, same, same, torch.tensor([0, 1])).tolist() == [0, 0]
    shifted = same + 1  # the difference of the two logits is the same
    assert compute_logit_shares(logits, same, shifted, torch.tensor([0, 1])).tolist() == [0, 0]


def test_share_of_nan_is_nan():
    logits, nan = torch.tensor([[math.nan, 0.0]]), torch.tensor([math.nan, 0.0])
    assert compute_logit_shares(logits, nan, nan, torch.tensor([0, 1])).isnan().all()


def test_groups_of_patches_partition_the_grid():
    model = random_model(VIT)  # 4 x 4 patches, one class token
    single = build_patch_masks(model)
    assert torch.equal(single[:, 1:], torch.eye(16, dtype=torch.bool)) and not single[:, 0].any()
    pairs = build_patch_masks(model, 2)
    assert pairs[1].nonzero()[:, 0].tolist() == [1 + p for p in (2, 3, 6, 7)]
    for side, count in ((1, 16), (2, 4), (3, 4), (4, 1), (9, 1)):
        masks = build_patch_masks(model, side)
        assert len(masks) == count and masks.any(1).all()
        assert torch.equal(masks.sum(0), torch.tensor([0] + [1] * 16))
    assert build_patch_masks(model, 3).sum(1).tolist() == [9, 3, 3, 1]


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("ours", {"class token": 1, "patches": 16}),
        ("distilled", {"class token": 1, "special tokens": 2, "patches": 16}),
        ("registers", {"class token": 1, "special tokens": 5, "patches": 16}),
        ("average pooled", {"patches": 16}),
    ],
)
def test_sets_of_tokens_follow_from_the_model(name, counts):
    masks = build_token_masks(random_model(ATTENTION_MODELS[name]))
    assert {name: int(mask.sum()) for name, mask in masks.items()} == counts
    assert masks["patches"][-16:].all()


def test_random_masks_are_repeatable_and_contain_only_patches():
    model = random_model(ATTENTION_MODELS["registers"])
    masks = draw_random_masks(model, 7, 20)
    assert (masks.sum(1) == 7).all() and not masks[:, :5].any()
    assert torch.equal(masks, draw_random_masks(model, 7, 20))
    assert not torch.equal(masks, draw_random_masks(model, 7, 20, seed=1))
    assert len({tuple(mask.tolist()) for mask in masks}) > 15
    assert draw_random_masks(model, 16, 2)[:, 5:].all()


def test_invalid_arguments_are_rejected():
    model = random_model(VIT)
    tokens = trace(model, random_images(model)).tokens
    pair, masks = tokens[1], build_patch_masks(model)
    for layer in (-1, 4):
        with pytest.raises(ValueError, match=rf"after layer {layer}: choose 0 to 3"):
            compute_patched_logits(model, *pair, masks, layer)
    with pytest.raises(ValueError, match=r"not \(17, 24\) and \(16, 24\)"):
        compute_patched_logits(model, pair[0], pair[1, 1:], masks, 1)
    for wrong in (masks.float(), masks[:, 1:], masks[0]):
        with pytest.raises(ValueError, match="`masks` is torch"):
            compute_patched_logits(model, *pair, wrong, 1)
    with pytest.raises(ValueError, match="side of 0"):
        build_patch_masks(model, 0)
    with pytest.raises(ValueError, match="17 random patches"):
        draw_random_masks(model, 17, 1)
    with pytest.raises(TypeError, match="Cannot explain"):
        compute_patched_logits(torch.nn.Identity(), *pair, masks, 1)
