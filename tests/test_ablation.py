"""Heads switched off, against copies whose weights lack them, in float64 by the fused pass."""

import copy
import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from tests.making import KINDS, VIT, random_model
from vitdemo.attention import trace
from vitdemo.attention.ablation import logits_without, logits_without_each, mean_outputs

MODELS = {"ours": VIT, **KINDS}
SEVERAL = {(0, 0), (0, 1), (1, 1)}


@pytest.fixture(params=MODELS)
def model(request):
    model = random_model(MODELS[request.param]).double()
    assert not any(module.training for module in model.modules())
    return model


def pictures(model, batch=2):
    size = (batch, 3, *model.patch_embed.img_size)
    return torch.randn(size, generator=torch.Generator().manual_seed(1)).double()


def cut(model, heads):
    """A copy whose output projection takes nothing from `heads`: its columns are zeros."""
    model = copy.deepcopy(model)
    for layer, head in heads:
        attn = model.blocks[layer].attn
        attn.proj.weight[:, head * attn.head_dim : (head + 1) * attn.head_dim] = 0
    return model


def all_heads(model):
    return set(itertools.product(range(len(model.blocks)), range(model.blocks[0].attn.num_heads)))


@torch.no_grad()
@pytest.mark.parametrize("heads", [set(), {(1, 0)}, SEVERAL, "all"], ids=str)
def test_without_heads_is_the_model_cut_by_hand(model, heads):
    images, heads = pictures(model), all_heads(model) if heads == "all" else heads
    expected = cut(model, heads)(images)
    torch.testing.assert_close(logits_without(model, images, heads), expected, atol=1e-9, rtol=0)
    assert not heads or (expected - model(images)).abs().max() > 1e-3


@torch.no_grad()
def test_each_head_alone_is_the_model_cut_by_hand_and_the_model_is_left_as_it_was(model):
    images = pictures(model)
    before, weights = model(images), copy.deepcopy(model.state_dict())
    found = logits_without_each(model, trace(model, images).tokens)
    L, H = len(model.blocks), model.blocks[0].attn.num_heads
    assert found.shape == (L, H, 2, model.num_classes)
    for layer, head in all_heads(model):
        expected = cut(model, {(layer, head)})(images)
        torch.testing.assert_close(found[layer, head], expected, atol=1e-9, rtol=0)
    logits_without(model, images, SEVERAL)
    assert torch.equal(model(images), before)
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@torch.no_grad()
def test_means_are_those_that_enter_the_projection(model):
    images, kept, other = pictures(model, batch=5), [], copy.deepcopy(model)
    for block in other.blocks:  # timm's and our own pass, hooked on a copy
        block.attn.proj.register_forward_hook(lambda module, args, out: kept.append(args[0]))
    other(images)
    found = mean_outputs(model, images)
    for mean, entered in zip(found, kept, strict=True):  # entered (B, N, D)
        H, N, width = mean.shape
        wanted = entered.mean(0).view(N, H, width).transpose(0, 1)
        torch.testing.assert_close(mean, wanted, atol=1e-9, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("heads", [{(1, 0)}, SEVERAL])
def test_a_head_that_is_off_hands_on_its_mean(model, heads):
    """Against a copy whose projection takes nothing from the heads, and adds their mean's part."""
    images, others = pictures(model), pictures(model, batch=6)[2:]
    means = mean_outputs(model, others)  # of each layer (H, N, D/H)
    expected = cut(model, heads)
    for layer, head in heads:
        own, proj = model.blocks[layer].attn, expected.blocks[layer].attn.proj
        columns = slice(head * own.head_dim, (head + 1) * own.head_dim)
        part = means[layer][head] @ own.proj.weight[:, columns].T  # (N, D)
        proj.register_forward_hook(lambda module, inputs, out, part=part: out + part)
    found = logits_without(model, images, heads, means)
    torch.testing.assert_close(found, expected(images), atol=1e-9, rtol=0)
    assert (found - logits_without(model, images, heads)).abs().max() > 1e-3


@torch.no_grad()
def test_a_head_that_hands_on_the_same_always_is_not_missed():
    model = random_model(VIT).double()
    images = pictures(model, batch=4)
    attn = model.blocks[1].attn
    values = slice(2 * model.embed_dim, 2 * model.embed_dim + attn.head_dim)  # of the first head
    attn.qkv.weight.data[values] = 0
    means = mean_outputs(model, images)
    whole = model(images)
    torch.testing.assert_close(logits_without(model, images, {(1, 0)}, means), whole)
    assert (logits_without(model, images, {(1, 0)}) - whole).abs().max() > 1e-2
    each = logits_without_each(model, trace(model, images).tokens, means)
    torch.testing.assert_close(each[1, 0], whole)
    torch.testing.assert_close(each[2, 1], logits_without(model, images, {(2, 1)}, means))


@torch.no_grad()
def test_two_users_switch_off_different_heads_of_one_model():
    model = random_model(VIT).double()
    images = pictures(model)
    choices = [{(layer, head)} for layer in range(3) for head in range(2)] * 3
    alone = [logits_without(model, images, heads) for heads in choices]

    def ask(heads):
        with torch.no_grad():  # of each thread its own
            return logits_without(model, images, heads)

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(ask, choices))
    for found, expected in zip(together, alone, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("head", [(3, 0), (0, 2), (-1, 0), (0, -1)])
def test_a_head_that_is_not_there_is_named(head):
    model = random_model(VIT).double()
    with pytest.raises(ValueError, match=r"no head .*layers 0\.\.2 with heads 0\.\.1"):
        logits_without(model, pictures(model), {head})
