"""Direct logit attribution and one head's numbers, against plain loops in float64."""

import math

import numpy as np
import pytest
import torch
from scipy.special import erf

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


@pytest.fixture(params=MODELS)
def kind(request):
    return request.param


@pytest.fixture
def model(kind):
    return random_model(MODELS[kind]).double()


@pytest.fixture
def traced(model, kind):
    side = MODELS[kind].image_size
    picture = torch.randn(1, 3, side, side, generator=torch.Generator().manual_seed(1)).double()
    with torch.no_grad():
        return trace(model, picture)


class Reference:
    """One block's parts and the head, from the state dict, a token and a number at a time."""

    def __init__(self, model):
        self.weights = {name: w.numpy() for name, w in model.state_dict().items()}
        self.heads = model.blocks[0].attn.num_heads
        self.eps = model.blocks[0].norm1.eps

    def norm(self, name, x):
        """x (D,); a norm that has no weights is none."""
        if f"{name}.weight" not in self.weights:
            return x
        mean, variance = sum(x) / len(x), np.var(x)
        own = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return (x - mean) / math.sqrt(variance + self.eps) * own[0] + own[1]

    def linear(self, name, x):
        found = self.weights[f"{name}.weight"] @ x
        return found + self.weights.get(f"{name}.bias", 0)

    def scaled(self, name, x):
        return x * self.weights.get(f"{name}.gamma", 1)

    def head(self, block, tokens, h):
        """Queries, keys and values of head `h`, each (N, d)."""
        name, D = f"blocks.{block}", tokens.shape[1]
        d = D // self.heads
        qkv = [self.linear(f"{name}.attn.qkv", self.norm(f"{name}.norm1", x)) for x in tokens]
        q, k, v = ([x[i * D + h * d : i * D + (h + 1) * d] for x in qkv] for i in range(3))
        q = [self.norm(f"{name}.attn.q_norm", x) for x in q]
        k = [self.norm(f"{name}.attn.k_norm", x) for x in k]
        return q, k, v

    def handed(self, block, tokens):
        """What each head hands on to each token: (N, H, d)."""
        found = np.zeros((len(tokens), self.heads, tokens.shape[1] // self.heads))
        for h in range(self.heads):
            q, k, v = self.head(block, tokens, h)
            for n in range(len(tokens)):
                scores = [math.exp(sum(q[n] * each) / math.sqrt(len(each))) for each in k]
                for weight, value in zip(scores, v, strict=True):
                    found[n, h] += weight / sum(scores) * value
        return found

    def projected(self, block, joined):
        name = f"blocks.{block}"
        joined = self.norm(f"{name}.attn.norm", joined)
        return self.scaled(f"{name}.ls1", self.linear(f"{name}.attn.proj", joined))

    def mlp(self, block, x):
        name = f"blocks.{block}"
        hidden = self.linear(f"{name}.mlp.fc1", self.norm(f"{name}.norm2", x))
        hidden = hidden * (1 + erf(hidden / math.sqrt(2))) / 2
        return self.scaled(f"{name}.ls2", self.linear(f"{name}.mlp.fc2", hidden))


def frozen(reference, model, final, target):
    """The logit of `target` as a function of a change of the answer tokens (R, D), all norms'
    scales held as they are at `final`: the reading of one part."""
    w = reference.weights
    heads = ["head", "head_dist"] if "head_dist.weight" in w else ["head"]

    def normed(name, change, at):
        if f"{name}.weight" not in w:
            return change
        scale = math.sqrt(np.var(at) + reference.eps)
        return (change - change.mean()) / scale * w[f"{name}.weight"]

    def read(change):
        rows = [normed("norm", c, at) for c, at in zip(change, final, strict=True)]
        if len(heads) == 2:
            return sum(w[f"{h}.weight"][target] @ r for h, r in zip(heads, rows, strict=True)) / 2
        pooled = np.mean([reference.norm("norm", at) for at in final], axis=0)
        return w["head.weight"][target] @ normed("fc_norm", np.mean(rows, axis=0), pooled)

    return read


@torch.no_grad()
def test_a_heads_numbers_are_those_of_plain_loops(model, traced):
    reference = Reference(model)
    for layer, tokens in enumerate(traced.tokens[:-1]):
        found = queries_keys_values(model, tokens, layer)
        for h in range(reference.heads):
            expected = reference.head(layer, tokens[0].numpy(), h)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one[0, h], other, atol=1e-5)
        q, k, _ = found
        weights = (head_scale(model, layer) * q @ k.mT).softmax(-1)
        torch.testing.assert_close(weights, traced.attention[layer], atol=1e-12, rtol=0)


@torch.no_grad()
def test_parts_are_those_of_plain_loops(model, traced):
    reference, rows = Reference(model), answer_rows(model)
    tokens = traced.tokens[:, 0].numpy()
    found = contributions(model, traced.tokens[:, 0], CLASSES)
    for k, target in enumerate(CLASSES):
        read = frozen(reference, model, tokens[-1][rows], target)
        assert float(found.embedding[k]) == pytest.approx(read(tokens[0][rows]), abs=1e-5)
        for layer, x in enumerate(tokens[:-1]):
            handed = reference.handed(layer, x)[rows]
            update = np.stack([reference.projected(layer, each.ravel()) for each in handed])
            whole = found.heads[k, layer].sum() + found.attention_bias[k, layer]
            assert float(whole) == pytest.approx(read(update), abs=1e-5)
            mlp = np.stack([reference.mlp(layer, each) for each in x[rows] + update])
            assert float(found.mlps[k, layer]) == pytest.approx(read(mlp), abs=1e-5)
            if f"blocks.{layer}.attn.norm.weight" in reference.weights:
                continue  # its heads share a norm, and the loops below leave that out
            for h in range(reference.heads):
                alone = np.zeros_like(handed)
                alone[:, h] = handed[:, h]
                proj = reference.weights[f"blocks.{layer}.attn.proj.weight"]
                one = [reference.scaled(f"blocks.{layer}.ls1", proj @ a.ravel()) for a in alone]
                assert float(found.heads[k, layer, h]) == pytest.approx(read(one), abs=1e-5)


@torch.no_grad()
def test_parts_add_up_to_the_logits(model, traced):
    every = list(range(traced.logits.shape[1]))
    found = contributions(model, traced.tokens[:, 0], every)
    torch.testing.assert_close(found.total, traced.logits[0], atol=1e-10, rtol=0)
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
    torch.testing.assert_close(found.total[0], traced.logits[0, 1], atol=1e-4, rtol=0)


@torch.no_grad()
def test_lengths_are_means_of_norms(model, traced):
    rows = answer_rows(model)
    found = lengths(traced.tokens[:, 0], rows)
    for layer, tokens in enumerate(traced.tokens[:, 0].numpy()):
        norms = [math.sqrt(sum(v * v for v in x)) for x in tokens[rows]]
        assert float(found[layer]) == pytest.approx(sum(norms) / len(norms), abs=1e-9)


@torch.no_grad()
def test_a_norm_that_is_not_linear_is_refused():
    model = random_model(VIT)
    traced = trace(model, torch.randn(1, 3, VIT.image_size, VIT.image_size))
    model.norm = torch.nn.RMSNorm(model.embed_dim)
    with pytest.raises(TypeError, match="RMSNorm"):
        contributions(model, traced.tokens[:, 0], [0])
