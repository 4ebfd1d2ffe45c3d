"""Direct logit attribution and one head's vectors, compared with the model head by head."""

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from tests.support.factories import TIMM_KINDS, VIT, random_model, timm_spec
from vitdemo.explain.forward_pass import classifier_rows, trace
from vitdemo.explain.logit_attribution import compute_contributions, mean_token_norms
from vitdemo.explain.qkv import compute_qkv, head_scale
from vitdemo.models import ModelSpec

AVERAGE_POOLED = ModelSpec("vit", 32, options=VIT.options | {"global_pool": "avg"})
MODELS = {
    "ours": VIT,
    "ours, averaged": AVERAGE_POOLED,
    "layer scale, norms": timm_spec(init_values=0.3, qk_norm=True, scale_attn_norm=True),
    "RMS norms": timm_spec(norm_layer="rmsnorm"),
    **TIMM_KINDS,
}
CLASSES = [2, 0]


@pytest.fixture(scope="module", params=MODELS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def model(kind):
    return random_model(MODELS[kind]).double()


@pytest.fixture(scope="module")
def traced(model, kind):
    side = MODELS[kind].image_size
    image = torch.randn(1, 3, side, side, generator=torch.Generator().manual_seed(1)).double()
    with torch.no_grad():
        return trace(model, image)


def find_submodule(module, name):
    return getattr(module, name, torch.nn.Identity())


def compute_head_qkv(block, tokens, h):
    """Return the queries, keys and values of head `h`, each (N, d)."""
    qkv = block.attn.qkv(block.norm1(tokens)).unflatten(1, (3, block.attn.num_heads, -1))
    q, k, v = qkv[:, :, h].unbind(1)
    return find_submodule(block.attn, "q_norm")(q), find_submodule(block.attn, "k_norm")(k), v


def compute_head_outputs(block, tokens):
    """Return the output of each head for each token, (N, H, d)."""
    outputs = []
    for h in range(block.attn.num_heads):
        q, k, v = compute_head_qkv(block, tokens, h)
        outputs.append((q @ k.T / math.sqrt(q.shape[1])).softmax(dim=1) @ v)
    return torch.stack(outputs, dim=1)


def apply_norm_with_fixed_scale(norm, change, tokens):
    """Return a change (..., D) of `tokens` after `norm`, with the scale of `norm` held fixed."""
    if isinstance(norm, torch.nn.Identity):
        return change
    if not hasattr(norm, "bias"):  # RMSNorm subtracts no mean
        return change / (tokens.square().mean(-1, keepdim=True) + norm.eps).sqrt() * norm.weight
    spread = (tokens.var(-1, unbiased=False, keepdim=True) + norm.eps).sqrt()
    return (change - change.mean(-1, keepdim=True)) / spread * norm.weight


def compute_logit_change(model, change, final, target):
    """Return the effect of a change (R, D) of the classifier's tokens on the logit of `target`."""
    rows = apply_norm_with_fixed_scale(model.norm, change, final)
    if hasattr(model, "head_dist"):
        pair = zip((model.head, model.head_dist), rows, strict=True)
        return float(sum(head.weight[target] @ row for head, row in pair) / 2)
    pooled = model.norm(final).mean(0)
    return float(
        model.head.weight[target]
        @ apply_norm_with_fixed_scale(find_submodule(model, "fc_norm"), rows.mean(0), pooled)
    )


@torch.no_grad()
def test_queries_keys_values_and_weights_equal_the_reference(model, traced):
    for layer, block in enumerate(model.blocks):
        qkv = compute_qkv(model, traced.tokens[layer], layer)
        for h in range(block.attn.num_heads):
            expected = compute_head_qkv(block, traced.tokens[layer, 0], h)
            for actual, reference in zip(qkv, expected, strict=True):
                assert_close(actual[0, h], reference, atol=1e-5, rtol=1e-7)
        q, k, _ = qkv
        weights = (head_scale(model, layer) * q @ k.mT).softmax(-1)
        assert_close(weights, traced.attention[layer], atol=1e-12, rtol=0)


@torch.no_grad()
def test_logit_contributions_equal_the_reference(model, traced):
    rows, tokens = classifier_rows(model), traced.tokens[:, 0]
    parts = compute_contributions(model, tokens, CLASSES)
    for k, target in enumerate(CLASSES):

        def check(contribution, change, target=target):
            expected = compute_logit_change(model, change, tokens[-1, rows], target)
            assert float(contribution) == pytest.approx(expected, abs=1e-5)

        check(parts.embedding[k], tokens[0, rows])
        for layer, (block, x) in enumerate(zip(model.blocks, tokens, strict=False)):
            attn, scale = block.attn, find_submodule(block, "ls1")
            outputs = compute_head_outputs(block, x)[rows]  # (R, H, d)
            update = scale(attn.proj(find_submodule(attn, "norm")(outputs.flatten(1))))
            check(parts.heads[k, layer].sum() + parts.attention_bias[k, layer], update)
            mlp = find_submodule(block, "ls2")(block.mlp(block.norm2(x[rows] + update)))
            check(parts.mlps[k, layer], mlp)
            if not isinstance(find_submodule(attn, "norm"), torch.nn.Identity):
                continue  # its heads share a norm, which the loop below does not apply
            for h, projection in enumerate(attn.proj.weight.chunk(attn.num_heads, dim=1)):
                check(parts.heads[k, layer, h], scale(outputs[:, h] @ projection.T))


@torch.no_grad()
def test_logit_contributions_sum_to_the_logits(model, traced):
    classes = list(range(traced.logits.shape[1]))
    contributions = compute_contributions(model, traced.tokens[:, 0], classes)
    assert_close(contributions.total, traced.logits[0], atol=1e-10, rtol=0)
    assert contributions.heads.shape[:2] == (len(classes), len(model.blocks))
    assert contributions.heads.abs().min() > 0


@torch.no_grad()
def test_mean_token_norms_equal_the_reference(model, traced):
    rows = classifier_rows(model)
    mean_norms = mean_token_norms(traced.tokens[:, 0], rows)
    norms = np.linalg.norm(traced.tokens[:, 0].numpy()[:, rows], axis=-1)  # (L+1, R)
    np.testing.assert_allclose(mean_norms, norms.mean(axis=1), atol=1e-9, rtol=0)


@torch.no_grad()
def test_unsupported_norm_raises_type_error():
    model = random_model(VIT)
    traced = trace(model, torch.randn(1, 3, VIT.image_size, VIT.image_size))
    model.norm = torch.nn.RMSNorm(model.embed_dim)
    with pytest.raises(TypeError, match="RMSNorm"):
        compute_contributions(model, traced.tokens[:, 0], [0])
