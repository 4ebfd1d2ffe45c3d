"""Head ablation against copies of the model with zeroed weights, in float64."""

import copy
import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from tests.support.factories import TIMM_KINDS, VIT, random_images, random_model
from vitdemo.explain.forward_pass import trace
from vitdemo.explain.head_ablation import ablate_each_head, ablate_heads, compute_head_means

MODELS = {"ours": VIT, **TIMM_KINDS}
THREE_HEADS = {(0, 0), (0, 1), (1, 1)}


@pytest.fixture(params=MODELS)
def model(request):
    model = random_model(MODELS[request.param]).double()
    assert not any(module.training for module in model.modules())
    return model


def zero_heads(model, heads):
    """Return a copy whose output projection has zero columns for `heads`."""
    model = copy.deepcopy(model)
    for layer, head in heads:
        attn = model.blocks[layer].attn
        attn.proj.weight[:, head * attn.head_dim : (head + 1) * attn.head_dim] = 0
    return model


def list_all_heads(model):
    return set(itertools.product(range(len(model.blocks)), range(model.blocks[0].attn.num_heads)))


@torch.no_grad()
@pytest.mark.parametrize("heads", [set(), {(1, 0)}, THREE_HEADS, "all"], ids=str)
def test_logits_without_heads_equal_a_model_with_zeroed_weights(model, heads):
    images, heads = random_images(model), list_all_heads(model) if heads == "all" else heads
    expected = zero_heads(model, heads)(images)
    torch.testing.assert_close(ablate_heads(model, images, heads), expected, atol=1e-9, rtol=0)
    assert not heads or (expected - model(images)).abs().max() > 1e-3


@torch.no_grad()
def test_single_head_ablations_equal_zeroed_weights_and_keep_the_model(model):
    images = random_images(model)
    before, weights = model(images), copy.deepcopy(model.state_dict())
    ablated = ablate_each_head(model, trace(model, images).tokens)
    L, H = len(model.blocks), model.blocks[0].attn.num_heads
    assert ablated.shape == (L, H, 2, model.num_classes)
    for layer, head in list_all_heads(model):
        expected = zero_heads(model, {(layer, head)})(images)
        torch.testing.assert_close(ablated[layer, head], expected, atol=1e-9, rtol=0)
    ablate_heads(model, images, THREE_HEADS)
    assert torch.equal(model(images), before)
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@torch.no_grad()
def test_mean_outputs_equal_the_mean_input_of_the_projection(model):
    images, inputs, hooked = random_images(model, batch=5), [], copy.deepcopy(model)
    for block in hooked.blocks:  # hooks on a copy leave the model unchanged
        block.attn.proj.register_forward_hook(lambda module, args, out: inputs.append(args[0]))
    hooked(images)
    means = compute_head_means(model, images)
    for mean, values in zip(means, inputs, strict=True):  # values (B, N, D)
        H, N, width = mean.shape
        expected = values.mean(0).view(N, H, width).transpose(0, 1)
        torch.testing.assert_close(mean, expected, atol=1e-9, rtol=0)


@torch.no_grad()
def test_mean_ablation_replaces_the_output_of_a_head_by_its_mean(model):
    """Compare with a copy whose projection adds the contribution of the mean outputs."""
    images, others, heads = random_images(model), random_images(model, batch=6)[2:], THREE_HEADS
    means = compute_head_means(model, others)  # for each layer (H, N, D/H)
    reference = zero_heads(model, heads)
    for layer, head in heads:
        attn, proj = model.blocks[layer].attn, reference.blocks[layer].attn.proj
        columns = slice(head * attn.head_dim, (head + 1) * attn.head_dim)
        part = means[layer][head] @ attn.proj.weight[:, columns].T  # (N, D)
        proj.register_forward_hook(lambda module, inputs, out, part=part: out + part)
    ablated = ablate_heads(model, images, heads, means)
    torch.testing.assert_close(ablated, reference(images), atol=1e-9, rtol=0)
    assert (ablated - ablate_heads(model, images, heads)).abs().max() > 1e-3
    one_head = ablate_each_head(model, trace(model, images).tokens, means)[1, 0]
    torch.testing.assert_close(one_head, ablate_heads(model, images, {(1, 0)}, means))


@torch.no_grad()
def test_concurrent_ablations_of_one_model_are_independent():
    model = random_model(VIT).double()
    images = random_images(model)
    choices = [{(layer, head)} for layer in range(3) for head in range(2)] * 3
    sequential = [ablate_heads(model, images, heads) for heads in choices]

    def ablate(heads):
        with torch.no_grad():  # the grad mode is local to each thread
            return ablate_heads(model, images, heads)

    with ThreadPoolExecutor(4) as pool:
        concurrent = list(pool.map(ablate, choices))
    for logits, expected in zip(concurrent, sequential, strict=True):
        torch.testing.assert_close(logits, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("head", [(3, 0), (0, 2), (-1, 0), (0, -1)])
def test_unknown_head_raises_an_error_with_the_valid_range(head):
    model = random_model(VIT).double()
    with pytest.raises(ValueError, match=r"no head .*layers 0\.\.2 with heads 0\.\.1"):
        ablate_heads(model, random_images(model), {head})
