"""Direct logit attribution and one head's numbers, against numpy in float64, head by head."""

import math

import numpy as np
import pytest
import torch
from scipy.special import erf, softmax
from torch.testing import assert_close

from tests.making import KINDS, VIT, random_model, timm_spec
from vitdemo.attention import answer_rows, trace
from vitdemo.attention.one_head import head_scale, queries_keys_values
from vitdemo.attention.residual import contributions, lengths
from vitdemo.models import ModelSpec

AVERAGE = ModelSpec("vit", 32, options=VIT.options | {"global_pool": "avg"})
MODELS = {
    "ours": VIT,
    "ours, averaged": AVERAGE,
    "layer scale, norms": timm_spec(init_values=0.3, qk_norm=True, scale_attn_norm=True),
    **KINDS,
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
    picture = torch.randn(1, 3, side, side, generator=torch.Generator().manual_seed(1)).double()
    with torch.no_grad():
        return trace(model, picture)


class Reference:
    """A block's parts and the head, from the state dict alone."""

    def __init__(self, model):
        self.weights = {name: w.numpy() for name, w in model.state_dict().items()}
        self.heads = model.blocks[0].attn.num_heads
        self.eps = model.blocks[0].norm1.eps

    def norm(self, name, x, at=None):
        """x (..., D); a norm that has no weights is none.

        With `at`, x is a change of it, read with the scale held as it is there."""
        if f"{name}.weight" not in self.weights:
            return x
        variance = np.var(x if at is None else at, axis=-1, keepdims=True)
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(variance + self.eps)
        x = x * self.weights[f"{name}.weight"]
        return x + self.weights[f"{name}.bias"] if at is None else x

    def linear(self, name, x):
        return x @ self.weights[f"{name}.weight"].T + self.weights.get(f"{name}.bias", 0)

    def scaled(self, name, x):
        return x * self.weights.get(f"{name}.gamma", 1)

    def head(self, block, tokens, h):
        """Queries, keys and values of head `h`, each (N, d)."""
        name, d = f"blocks.{block}", tokens.shape[1] // self.heads
        parts = self.linear(f"{name}.attn.qkv", self.norm(f"{name}.norm1", tokens))
        q, k, v = (parts[:, (i * self.heads + h) * d :][:, :d] for i in range(3))
        return self.norm(f"{name}.attn.q_norm", q), self.norm(f"{name}.attn.k_norm", k), v

    def handed(self, block, tokens):
        """What each head hands on to each token: (N, H, d)."""
        found = []
        for q, k, v in (self.head(block, tokens, h) for h in range(self.heads)):
            found.append(softmax(q @ k.T / math.sqrt(q.shape[1]), axis=1) @ v)
        return np.stack(found, axis=1)

    def projected(self, block, joined):
        name = f"blocks.{block}"
        joined = self.norm(f"{name}.attn.norm", joined)
        return self.scaled(f"{name}.ls1", self.linear(f"{name}.attn.proj", joined))

    def mlp(self, block, x):
        name = f"blocks.{block}"
        hidden = self.linear(f"{name}.mlp.fc1", self.norm(f"{name}.norm2", x))
        hidden = hidden * (1 + erf(hidden / math.sqrt(2))) / 2
        return self.scaled(f"{name}.ls2", self.linear(f"{name}.mlp.fc2", hidden))

    def read(self, change, final, target):
        """What a change of the answer tokens (R, D) adds to the logit of `target`, all norms'
        scales held as they are at `final`."""
        rows = self.norm("norm", change, at=final)
        if "head_dist.weight" in self.weights:
            pair = zip(("head", "head_dist"), rows, strict=True)
            return sum(self.weights[f"{head}.weight"][target] @ row for head, row in pair) / 2
        pooled = self.norm("norm", final).mean(axis=0)
        row = self.norm("fc_norm", rows.mean(axis=0), at=pooled)
        return self.weights["head.weight"][target] @ row


@torch.no_grad()
def test_a_heads_numbers_are_those_of_the_reference(model, traced):
    reference = Reference(model)
    for layer, tokens in enumerate(traced.tokens[:-1]):
        found = queries_keys_values(model, tokens, layer)
        for h in range(reference.heads):
            expected = reference.head(layer, tokens[0].numpy(), h)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one[0, h], other, atol=1e-5)
        q, k, _ = found
        weights = (head_scale(model, layer) * q @ k.mT).softmax(-1)
        assert_close(weights, traced.attention[layer], atol=1e-12, rtol=0)


@torch.no_grad()
def test_parts_are_those_of_the_reference(model, traced):
    reference, rows = Reference(model), answer_rows(model)
    tokens = traced.tokens[:, 0].numpy()
    found = contributions(model, traced.tokens[:, 0], CLASSES)
    for k, target in enumerate(CLASSES):

        def check(found, change, target=target):
            expected = reference.read(change, tokens[-1][rows], target)
            assert float(found) == pytest.approx(expected, abs=1e-5)

        check(found.embedding[k], tokens[0][rows])
        for layer, x in enumerate(tokens[:-1]):
            handed = reference.handed(layer, x)[rows]  # (R, H, d)
            update = reference.projected(layer, handed.reshape(len(handed), -1))
            check(found.heads[k, layer].sum() + found.attention_bias[k, layer], update)
            check(found.mlps[k, layer], reference.mlp(layer, x[rows] + update))
            if f"blocks.{layer}.attn.norm.weight" in reference.weights:
                continue  # its heads share a norm, and the loop below leaves that out
            projections = np.split(
                reference.weights[f"blocks.{layer}.attn.proj.weight"], reference.heads, axis=1
            )
            for h, own in enumerate(projections):
                change = reference.scaled(f"blocks.{layer}.ls1", handed[:, h] @ own.T)
                check(found.heads[k, layer, h], change)


@torch.no_grad()
def test_parts_add_up_to_the_logits(model, traced):
    every = list(range(traced.logits.shape[1]))
    found = contributions(model, traced.tokens[:, 0], every)
    assert_close(found.total, traced.logits[0], atol=1e-10, rtol=0)
    assert found.heads.shape[:2] == (len(every), len(model.blocks))
    assert found.heads.abs().min() > 0


@torch.no_grad()
def test_parts_add_up_in_single_precision(kind):
    spec = MODELS[kind]
    model = random_model(spec)
    for parameter in model.parameters():
        parameter.mul_(0.1)  # as large as those of a trained model
    traced = trace(model, torch.randn(1, 3, spec.image_size, spec.image_size))
    found = contributions(model, traced.tokens[:, 0], [1])
    assert_close(found.total[0], traced.logits[0, 1], atol=1e-4, rtol=0)


@torch.no_grad()
def test_lengths_are_means_of_norms(model, traced):
    rows = answer_rows(model)
    found = lengths(traced.tokens[:, 0], rows)
    norms = np.linalg.norm(traced.tokens[:, 0].numpy()[:, rows], axis=-1)  # (L+1, R)
    np.testing.assert_allclose(found, norms.mean(axis=1), atol=1e-9, rtol=0)


@torch.no_grad()
def test_a_norm_that_is_not_linear_is_refused():
    model = random_model(VIT)
    traced = trace(model, torch.randn(1, 3, VIT.image_size, VIT.image_size))
    model.norm = torch.nn.RMSNorm(model.embed_dim)
    with pytest.raises(TypeError, match="RMSNorm"):
        contributions(model, traced.tokens[:, 0], [0])
