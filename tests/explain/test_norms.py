"""Norm-weighted attention compared with explicit vectors of all token pairs, in float64."""

import pytest
import torch

from tests.support.factories import ATTENTION_MODELS as MODELS
from tests.support.factories import random_images, random_model, timm_spec
from vitdemo.explain.forward_pass import trace
from vitdemo.explain.norms import head_norms, norms_to_weights, summed_head_norms, value_products


@pytest.fixture(params=MODELS)
def model(request):
    return random_model(MODELS[request.param]).double()


def reference_weighted_values(model, layer, tokens, attention):
    """Compute the vectors alpha_ij (x_j W_V + b_V) W_O by head, (B, H, N, N, D)."""
    block = model.blocks[layer]
    attn, D = block.attn, tokens.shape[-1]
    width, x = D // attn.num_heads, block.norm1(tokens)
    vectors = []
    for head in range(attn.num_heads):
        rows = slice(2 * D + head * width, 2 * D + (head + 1) * width)
        W_V, b_V = attn.qkv.weight[rows].T, attn.qkv.bias[rows]
        W_O = attn.proj.weight[:, head * width : (head + 1) * width].T  # (D/H, D)
        f = (x @ W_V + b_V) @ W_O  # (B, N, D)
        f = f * block.ls1.gamma if hasattr(getattr(block, "ls1", None), "gamma") else f
        vectors.append(attention[:, head, :, :, None] * f[:, None])
    return torch.stack(vectors, dim=1)


@torch.no_grad()
def test_norms_equal_those_of_explicit_weighted_values(model):
    traced = trace(model, random_images(model))
    products = value_products(model, traced.tokens)
    L, H = len(model.blocks), model.blocks[0].attn.num_heads
    assert products.shape == (L, 2, traced.tokens.shape[2], H, H)
    heads, layers = (norms(traced.attention, products) for norms in (head_norms, summed_head_norms))
    for layer in range(L):
        vectors = reference_weighted_values(
            model, layer, traced.tokens[layer], traced.attention[layer]
        )
        expected = vectors.norm(dim=-1)
        torch.testing.assert_close(heads[layer], expected, atol=1e-10, rtol=1e-8)
        joined = vectors.sum(dim=1).norm(dim=-1)
        torch.testing.assert_close(layers[layer], joined, atol=1e-10, rtol=1e-6)
        assert (joined - expected.sum(dim=1)).abs().max() > 1e-3  # heads partly cancel each other


@torch.no_grad()
def test_weighted_values_sum_to_the_attention_output(model):
    """The reference is complete: its vectors and the bias are the output of the attention."""
    images, outputs, block = random_images(model), [], model.blocks[1]
    last = block.ls1 if hasattr(block, "ls1") else block.attn
    last.register_forward_hook(lambda module, inputs, out: outputs.append(out))
    model(images)
    traced = trace(model, images)
    vectors = reference_weighted_values(model, 1, traced.tokens[1], traced.attention[1])
    gamma = getattr(getattr(block, "ls1", None), "gamma", 1)
    expected = vectors.sum(dim=(1, 3)) + block.attn.proj.bias * gamma
    torch.testing.assert_close(outputs[0], expected, atol=1e-9, rtol=0)


@torch.no_grad()
def test_norm_shares_in_float32_are_close_to_float64():
    found = []
    for dtype in (torch.float32, torch.float64):
        model = random_model(MODELS["registers"]).to(dtype)
        traced = trace(model, random_images(model))
        products = value_products(model, traced.tokens)
        norms = (norm(traced.attention, products) for norm in (head_norms, summed_head_norms))
        found.append([norms_to_weights(each).double() for each in norms])
    torch.testing.assert_close(*found, atol=1e-4, rtol=0)


def test_norm_shares_sum_to_one_and_zero_rows_are_uniform():
    weights = norms_to_weights(torch.tensor([[3.0, 1.0], [0.0, 0.0]]))
    assert weights.tolist() == [[0.75, 0.25], [0.5, 0.5]]


def test_token_with_zero_value_has_norm_zero_despite_its_weight():
    attention = torch.tensor([[[0.9, 0.1], [0.5, 0.5]]])  # one head
    products = torch.tensor([[[0.0]], [[4.0]]])  # f(x_1) is 0, f(x_2) has length 2
    assert torch.allclose(head_norms(attention, products), torch.tensor([[[0, 0.2], [0, 1.0]]]))
    summed = summed_head_norms(attention, products)
    assert torch.allclose(summed, torch.tensor([[0, 0.2], [0, 1.0]]))


def test_models_that_normalise_joined_heads_are_rejected():
    model = random_model(timm_spec(scale_attn_norm=True))
    tokens = trace(model, random_images(model)).tokens
    with pytest.raises(TypeError, match="normalises its joined heads"):
        value_products(model, tokens)
