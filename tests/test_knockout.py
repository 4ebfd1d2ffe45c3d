"""Attention knock-out, in float64 against copies of the models that the fused pass cannot cross."""

import copy

import pytest
import torch

from benchmarks.knockout import measured, probabilities
from tests.making import KINDS, VIT, random_model, timm_spec
from vitdemo.attention.knockout import bar_attention, bar_patches

KINDS_WITH_CLASS_TOKEN = {name: spec for name, spec in KINDS.items() if name != "average pooled"}
MODELS = {
    "ours": VIT,
    **KINDS_WITH_CLASS_TOKEN,
    "q/k norm and LayerScale": timm_spec(qk_norm=True, init_values=0.5),
}


@pytest.fixture(params=MODELS)
def model(request):
    return random_model(MODELS[request.param]).double()


def pictures(model, batch=2):
    size = (batch, 3, *model.patch_embed.img_size)
    return torch.randn(size, generator=torch.Generator().manual_seed(1)).double()


def masked_by_hand(model, images, barred):
    """timm's unfused formula, written out with an additive mask for each block's attention."""
    x = model._pos_embed(model.patch_embed(images))
    for block, mask in zip(model.blocks, barred, strict=True):
        attn, normed = block.attn, block.norm1(x)
        B, N, D = normed.shape
        qkv = attn.qkv(normed).view(B, N, 3, attn.num_heads, D // attn.num_heads)
        q, k, v = (qkv[:, :, i].transpose(1, 2) for i in range(3))
        if hasattr(attn, "q_norm"):
            q, k = attn.q_norm(q), attn.k_norm(k)
        kept = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=~mask)
        update = attn.proj(kept.transpose(1, 2).reshape(B, N, D))
        x = x + (block.ls1(update) if hasattr(block, "ls1") else update)
        update = block.mlp(block.norm2(x))
        x = x + (block.ls2(update) if hasattr(block, "ls2") else update)
    return model.forward_head(model.norm(x))


@torch.no_grad()
def test_barring_nothing_equals_the_plain_forward_pass(model):
    images = pictures(model)
    found = bar_attention(model, images, bar_patches(model, []))
    torch.testing.assert_close(found, model(images), atol=1e-9, rtol=0)


@torch.no_grad()
def test_in_single_precision_barring_nothing_is_within_1e_4():
    model = random_model(MODELS["registers"])
    images = pictures(model).float()
    found = bar_attention(model, images, bar_patches(model, []))
    torch.testing.assert_close(found, model(images), atol=1e-4, rtol=0)


@torch.no_grad()
def test_barred_in_all_layers_two_images_give_equal_logits(model):
    images = pictures(model)
    found = bar_attention(model, images, bar_patches(model, range(len(model.blocks))))
    assert torch.equal(found[0], found[1])
    assert (model(images)[0] - model(images)[1]).abs().max() > 1e-3


@torch.no_grad()
def test_barring_the_class_token_only_is_not_enough_with_registers():
    model = random_model(MODELS["registers"]).double()
    barred = bar_patches(model, range(len(model.blocks)))
    barred[:, 1 : model.num_prefix_tokens] = False
    first, second = bar_attention(model, pictures(model), barred)
    assert (first - second).abs().max() > 1e-6


@torch.no_grad()
@pytest.mark.parametrize("layers", [[0], [1], [0, 1]])
def test_some_layers_equal_torchs_own_masked_attention(model, layers):
    images, barred = pictures(model), bar_patches(model, layers)
    found = bar_attention(model, images, barred)
    torch.testing.assert_close(found, masked_by_hand(model, images, barred), atol=1e-9, rtol=0)
    assert (found - model(images)).abs().max() > 1e-6


@torch.no_grad()
def test_each_image_may_have_a_mask_of_its_own_and_the_model_is_left_as_it_was(model):
    images, weights = pictures(model), copy.deepcopy(model.state_dict())
    first, second = bar_patches(model, [0]), bar_patches(model, [1])
    found = bar_attention(model, images, torch.stack([first, second], dim=1))  # (L, B, N, N)
    torch.testing.assert_close(found[:1], bar_attention(model, images[:1], first))
    torch.testing.assert_close(found[1:], bar_attention(model, images[1:], second))
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())


def test_the_mask_covers_special_tokens_and_patches_only():
    model = random_model(MODELS["distilled"])
    barred = bar_patches(model, [1])
    assert not barred[0].any()
    assert barred[1, :2, 2:].all() and not barred[1, :, :2].any() and not barred[1, 2:].any()


def test_what_cannot_be_barred_is_named():
    model = random_model(VIT)
    images, barred = pictures(model).float(), bar_patches(model, [])
    with pytest.raises(ValueError, match=r"no layer 3: the model has layers 0\.\.2"):
        bar_patches(model, [3])
    with pytest.raises(ValueError, match="mean of its patch tokens"):
        bar_patches(random_model(KINDS["average pooled"]), [0])
    with pytest.raises(ValueError, match="shape"):
        bar_attention(model, images, barred[:2])
    with pytest.raises(ValueError, match="no token"):
        bar_attention(model, images, torch.ones_like(barred))


def test_the_benchmark_counts_what_stays_the_same():
    whole = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    found = torch.tensor([[0.4, 0.6], [0.3, 0.7], [0.9, 0.1]])
    accuracy, mean, same = measured(found, whole, torch.tensor([1, 1, 1]))
    assert accuracy == pytest.approx(2 / 3)
    assert mean == pytest.approx((0.4 + 0.7 + 0.9) / 3)
    assert same == pytest.approx(2 / 3)
    model = random_model(VIT)
    pixels = pictures(model, batch=3).float()
    torch.testing.assert_close(
        probabilities(model, pixels, []), model(pixels).softmax(1), atol=1e-5, rtol=0
    )
