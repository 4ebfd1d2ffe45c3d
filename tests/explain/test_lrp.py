"""`vitdemo.explain.lrp` against plain loops that propagate relevance by the paper's equations.

The loops run in numpy in float64, without autograd. They store the values of the forward pass of
one image, and propagate relevance from the logit to the input of each layer.
"""

from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.special import erf
from torch.testing import assert_close

from tests.explain.test_attention import build_ours, build_timm
from tests.support.factories import random_images
from vitdemo.explain.attributions import attribute
from vitdemo.explain.forward_pass import embed_images, trace
from vitdemo.explain.lrp import RelevanceRules, compute_token_relevance

AVERAGE = {"class_token": False, "global_pool": "avg"}
REGISTERS = {"reg_tokens": 2, "no_embed_class": True, "init_values": 0.5, "qk_norm": True}
KINDS = {
    "ours": build_ours,
    "average pooled": partial(build_timm, **AVERAGE),
    "distilled": partial(build_timm, "deit_tiny_distilled_patch16_224"),
    "registers, LayerScale and q/k norm": partial(build_timm, **REGISTERS),
}
CLASS = 3


def build_kind(name):
    return KINDS[name]().double().requires_grad_(False)


def propagate_linear(x, weight, output, relevance):
    """Equation 3 with epsilon 0: `x` (I,), `weight` (O, I), `output` and `relevance` (O,)."""
    found = np.zeros(len(x))
    for o in range(len(output)):
        found += weight[o] * x * relevance[o] / output[o]
    return found


def propagate_sum(first, second, relevance):
    """Return the parts of `relevance` of both terms of a sum, in proportion to their values."""
    return relevance * first / (first + second), relevance * second / (first + second)


def is_missing(norm):
    return isinstance(norm, torch.nn.Identity | None)


class Reference:
    """Forward pass of one token vector at a time, and the relevance of each layer's input."""

    def __init__(self, model, image):
        self.model, self.prefix = model, model.num_prefix_tokens
        self.x = embed_images(model, image)[0].numpy()  # (N, D)
        self.inputs = [self.x]
        for block in model.blocks:
            self.inputs.append(self.run_block(block, self.inputs[-1])["output"])

    @staticmethod
    def apply(layer, x):
        return np.stack([layer.weight.numpy() @ row + layer.bias.numpy() for row in x])

    @staticmethod
    def scale(norm, x):
        """Return the constant matrix (D, D) of a LayerNorm of the vector `x`, without bias."""
        D = len(x)
        centre = np.eye(D) - 1 / D
        return norm.weight.numpy()[:, None] * centre / np.sqrt(x.var() + norm.eps)

    def normalise(self, norm, x):
        if is_missing(norm):
            return x
        return np.stack([self.scale(norm, row) @ row + norm.bias.numpy() for row in x])

    def propagate_norm(self, norm, x, output, relevance):
        if is_missing(norm):
            return relevance
        rows = zip(x, output, relevance, strict=True)
        return np.stack([propagate_linear(a, self.scale(norm, a), b, c) for a, b, c in rows])

    def propagate_rows(self, layer, x, output, relevance):
        rows = zip(x, output, relevance, strict=True)
        return np.stack([propagate_linear(a, layer.weight.numpy(), b, c) for a, b, c in rows])

    @staticmethod
    def get_layer_scale(block, name):
        return getattr(getattr(block, name, None), "gamma", torch.tensor(1.0)).numpy()

    def run_block(self, block, x):
        """Return all values of a block by name."""
        v, attn = {"input": x}, block.attn
        v["norm1"] = self.normalise(block.norm1, x)
        v["qkv"] = self.apply(attn.qkv, v["norm1"])
        N, H = len(x), attn.num_heads
        v["q"], v["k"], v["v"] = v["qkv"].reshape(N, 3, H, -1).transpose(1, 2, 0, 3)  # (H, N, D/H)
        for part in ("q", "k"):
            norm, v[f"raw {part}"] = getattr(attn, f"{part}_norm", None), v[part]
            v[part] = np.stack([self.normalise(norm, head) for head in v[part]])
        v["scores"] = attn.scale * v["q"] @ v["k"].transpose(0, 2, 1)  # (H, N, N)
        v["weights"] = np.exp(v["scores"]) / np.exp(v["scores"]).sum(-1, keepdims=True)
        v["heads"] = v["weights"] @ v["v"]  # (H, N, D/H)
        v["joined"] = v["heads"].transpose(1, 0, 2).reshape(N, -1)
        v["proj"] = self.apply(attn.proj, v["joined"])
        v["update1"] = v["proj"] * self.get_layer_scale(block, "ls1")
        v["middle"] = x + v["update1"]
        v["norm2"] = self.normalise(block.norm2, v["middle"])
        v["fc1"] = self.apply(block.mlp.fc1, v["norm2"])
        v["act"] = v["fc1"] * (1 + erf(v["fc1"] / np.sqrt(2))) / 2
        v["fc2"] = self.apply(block.mlp.fc2, v["act"])
        v["update2"] = v["fc2"] * self.get_layer_scale(block, "ls2")
        v["output"] = v["middle"] + v["update2"]
        return v

    def propagate_attention(self, attn, v, relevance):
        """Return the relevance (H, N, D/H) of queries, keys and values, before their norms."""
        H, N, W = v["heads"].shape
        found = {part: np.zeros((H, N, W)) for part in "qkv"}
        for h in range(H):
            R, A, V = relevance[h], v["weights"][h], v["v"][h]
            on_weights = np.zeros((N, N))
            for j in range(N):
                for i in range(N):
                    share = A[j, i] * V[i] * R[j] / (2 * v["heads"][h, j])  # (D/H,), equation 15
                    on_weights[j, i] = share.sum()
                    found["v"][h, i] += share
            for j in range(N):
                # Equation 13 of the softmax
                on_scores = v["scores"][h, j] * (on_weights[j] - A[j] * on_weights[j].sum())
                for i in range(N):
                    share = attn.scale * v["q"][h, j] * v["k"][h, i]
                    share = share * on_scores[i] / (2 * v["scores"][h, j, i])
                    found["q"][h, j] += share
                    found["k"][h, i] += share
        for part in ("q", "k"):
            norm = getattr(attn, f"{part}_norm", None)
            heads = zip(v[f"raw {part}"], v[part], found[part], strict=True)
            found[part] = np.stack([self.propagate_norm(norm, *each) for each in heads])
        return found

    def propagate_block(self, block, x, relevance):
        v, N = self.run_block(block, x), len(x)
        on_middle, on_update = propagate_sum(v["middle"], v["update2"], relevance)
        # LayerScale multiplies by a constant, and the identity rule is that of GELU.
        on_act = self.propagate_rows(block.mlp.fc2, v["act"], v["fc2"], on_update)
        on_norm = self.propagate_rows(block.mlp.fc1, v["norm2"], v["fc1"], on_act)
        on_middle = on_middle + self.propagate_norm(block.norm2, v["middle"], v["norm2"], on_norm)
        on_input, on_update = propagate_sum(x, v["update1"], on_middle)
        on_joined = self.propagate_rows(block.attn.proj, v["joined"], v["proj"], on_update)
        on_heads = on_joined.reshape(N, block.attn.num_heads, -1).transpose(1, 0, 2)
        found = self.propagate_attention(block.attn, v, on_heads)
        on_qkv = np.stack([found[part] for part in "qkv"]).transpose(2, 0, 1, 3).reshape(N, -1)
        on_norm = self.propagate_rows(block.attn.qkv, v["norm1"], v["qkv"], on_qkv)
        return on_input + self.propagate_norm(block.norm1, x, v["norm1"], on_norm)

    def propagate_heads(self):
        """Return the relevance (N, D) of the last block's output for the logit of `CLASS`."""
        model, x = self.model, self.inputs[-1]
        final = self.normalise(model.norm, x)
        heads = [head for head in (model.head, getattr(model, "head_dist", None)) if head]
        relevance = np.zeros_like(x)
        for i, head in enumerate(heads):
            rows = list(range(self.prefix, len(x))) if model.global_pool == "avg" else [i]
            pooled = final[rows].mean(0, keepdims=True)  # (1, D)
            norm = getattr(model, "fc_norm", None)
            features = self.normalise(norm, pooled)
            weight, bias = head.weight[[CLASS]].numpy(), head.bias[[CLASS]].numpy()
            logit = weight @ features[0] + bias
            found = propagate_linear(features[0], weight, logit, logit / len(heads))[None]
            found = self.propagate_norm(norm, pooled, features, found)
            for row in rows:
                relevance[row] += found[0] * final[row] / len(rows) / pooled[0]
        return self.propagate_norm(model.norm, x, final, relevance)

    def compute(self):
        """Return the relevance (L, N) of each token at the input of each layer."""
        relevance, found = self.propagate_heads(), []
        for block, x in reversed([*zip(self.model.blocks, self.inputs[:-1], strict=True)]):
            relevance = self.propagate_block(block, x, relevance)
            found.append(relevance.sum(-1))
        return np.stack(found[::-1])


def compute_relevance(model, images, **options):
    weights = torch.eye(model.num_classes, dtype=images.dtype)[[CLASS] * len(images)]
    return compute_token_relevance(model, images, weights, **options)


@pytest.mark.parametrize("name", KINDS)
def test_token_relevance_equals_loops_over_layers_and_tokens(name):
    model = build_kind(name)
    images = random_images(model, batch=2)
    found = compute_relevance(model, images)
    assert found.shape == (len(model.blocks), 2, len(embed_images(model, images)[0]))
    for i in range(2):
        expected = torch.from_numpy(Reference(model, images[i : i + 1]).compute())
        assert_close(found[:, i], expected, atol=1e-9, rtol=1e-7)
        assert expected.std() > 1e-3


def remove_biases(model):
    """Set all biases to 0, so that no bias receives relevance."""
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.zeros_(parameter)
    return model


@pytest.mark.parametrize("name", KINDS)
def test_relevance_of_each_layer_adds_up_to_the_logit(name):
    model = remove_biases(build_kind(name))
    for block in model.blocks:
        # Without queries, all scores are 0, and half of the relevance of attention is lost there.
        block.attn.proj.weight.data.zero_()
    images = random_images(model)
    logits = trace(model, images).logits[:, CLASS]  # (B,)
    totals = compute_relevance(model, images).sum(-1)  # (L, B)
    assert_close(totals, logits.expand_as(totals), atol=1e-4, rtol=1e-4)


def test_relevance_is_linear_in_the_class_weights():
    model = build_kind("ours")
    images = random_images(model, batch=1)
    first, second = torch.eye(5).double()[:2, None]
    one, other = (compute_token_relevance(model, images, each) for each in (first, second))
    both = compute_token_relevance(model, images, 2 * first - second)
    assert_close(both, 2 * one - other)
    assert (one - other).abs().max() > 1e-3


def test_rules_change_neither_the_logits_nor_the_model():
    model = build_kind("registers, LayerScale and q/k norm")
    images = random_images(model)
    expected = trace(model, images).logits
    with RelevanceRules():
        assert_close(trace(model, images).logits, expected, atol=1e-12, rtol=1e-12)
    assert torch.equal(trace(model, images).logits, expected)


@pytest.mark.parametrize("function", [F.gelu, F.silu, partial(F.gelu, approximate="tanh")])
def test_activations_pass_on_their_relevance(function):
    x = torch.linspace(-3, 3, 7).double().requires_grad_()  # contains 0
    with RelevanceRules():
        output = function(x)
    assert_close(output, function(x), atol=1e-15, rtol=1e-15)
    (gradient,) = torch.autograd.grad(output.sum(), x)
    assert_close(x * gradient, output)
    assert gradient.isfinite().all()


def test_norms_have_a_constant_scale():
    x = torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(0)).double().requires_grad_()
    weight = torch.linspace(1, 2, 6).double()
    with RelevanceRules():
        layer, scale = F.layer_norm(x, (6,), weight), F.rms_norm(x, (6,), weight)
    assert_close(layer, F.layer_norm(x, (6,), weight))
    assert_close(scale, F.rms_norm(x, (6,), weight))
    for output in (layer, scale):
        (gradient,) = torch.autograd.grad(output.sum(), x)
        assert_close((x * gradient).sum(-1), output.sum(-1))


def test_map_is_the_mean_relevance_of_patch_tokens():
    model = build_kind("registers, LayerScale and q/k norm")
    images = random_images(model)
    expected = compute_relevance(model, images).mean(0)[:, model.num_prefix_tokens :]
    assert_close(attribute("attnlrp", model, images, CLASS).flatten(1), expected)


def test_factors_of_a_product_receive_half_of_the_relevance():
    draw = torch.Generator().manual_seed(0)
    first, second = (torch.randn(2, n, m, generator=draw).double() for n, m in ((3, 4), (4, 5)))
    first, second = first.requires_grad_(), second.requires_grad_()
    with RelevanceRules():
        product = first @ second
    assert_close(product, first @ second)
    on_first, on_second = torch.autograd.grad(product.sum(), (first, second))
    assert_close((first * on_first).sum(), product.sum() / 2)
    assert_close((second * on_second).sum(), product.sum() / 2)
