"""The logit lens against models that really stop earlier, and against plain loops in float64."""

import copy

import pytest
import torch

from tests.making import KINDS, VIT, random_model
from vitdemo.attention import trace
from vitdemo.attention.lens import logit_lens

MODELS = {"ours": VIT, **KINDS}


@pytest.fixture(params=MODELS)
def kind(request):
    return request.param


def build(kind):
    """A tiny random model in float64, and two pictures for it."""
    spec = MODELS[kind]
    size = (2, 3, spec.image_size, spec.image_size)
    pictures = torch.randn(size, generator=torch.Generator().manual_seed(1))
    return random_model(spec).double(), pictures.double()


def stopped(model, layers, pictures):
    """The answer of a copy that has the first `layers` blocks alone, by its own fused pass."""
    model = copy.deepcopy(model)
    model.blocks = model.blocks[:layers]
    return model(pictures).softmax(dim=-1)


def reference_norm(norm, x):
    if not isinstance(norm, torch.nn.LayerNorm):
        return x  # timm's Identity, where the average is normed after it is taken
    mean = sum(x.tolist()) / len(x)
    variance = sum((v - mean) ** 2 for v in x.tolist()) / len(x)
    return (x - mean) / (variance + norm.eps) ** 0.5 * norm.weight + norm.bias


def reference_patch(model, kind, token):
    """One token (D,) -> probabilities (C,), a class at a time."""
    x = reference_norm(model.norm, token)
    if kind == "average pooled":
        x = reference_norm(model.fc_norm, x)
    heads = [model.head, model.head_dist] if kind == "distilled" else [model.head]
    logits = [
        sum(float(head.weight[c] @ x + head.bias[c]) for head in heads) / len(heads)
        for c in range(model.num_classes)
    ]
    return torch.tensor(logits, dtype=torch.float64).softmax(0)


@torch.no_grad()
def test_the_last_answer_is_the_models(kind):
    model, pictures = build(kind)
    traced = trace(model, pictures)
    answers, _ = logit_lens(model, traced.tokens)
    torch.testing.assert_close(answers[-1], traced.logits.softmax(-1), atol=1e-14, rtol=0)


@torch.no_grad()
def test_each_answer_is_that_of_a_model_that_stops_there(kind):
    model, pictures = build(kind)
    answers, _ = logit_lens(model, trace(model, pictures).tokens)
    assert len(answers) == len(model.blocks) + 1
    for layers, answer in enumerate(answers):
        torch.testing.assert_close(answer, stopped(model, layers, pictures), atol=1e-9, rtol=1e-9)
    assert (answers[0] - answers[-1]).abs().max() > 0.05  # else nothing happens between


@torch.no_grad()
def test_each_patch_says_what_the_head_says_of_it(kind):
    model, pictures = build(kind)
    tokens = trace(model, pictures).tokens
    _, patches = logit_lens(model, tokens)
    p = model.num_prefix_tokens
    assert patches.shape == (*tokens.shape[:2], tokens.shape[2] - p, model.num_classes)
    for layer, picture, patch in [(0, 0, 0), (1, 1, 5), (len(tokens) - 1, 0, 15)]:
        expected = reference_patch(model, kind, tokens[layer, picture, p + patch])
        torch.testing.assert_close(patches[layer, picture, patch], expected, atol=1e-9, rtol=1e-9)


@torch.no_grad()
def test_pictures_do_not_see_each_other(kind):
    model, pictures = build(kind)
    both_answers, both_patches = logit_lens(model, trace(model, pictures).tokens)
    answers, patches = logit_lens(model, trace(model, pictures[1:]).tokens)
    torch.testing.assert_close(both_answers[:, 1:], answers)
    torch.testing.assert_close(both_patches[:, 1:], patches)


@torch.no_grad()
def test_half_precision_still_sums_to_one():
    model, pictures = build("class token")
    model = model.to(torch.bfloat16)
    _, patches = logit_lens(model, trace(model, pictures.to(torch.bfloat16)).tokens)
    assert patches.dtype == torch.float32
    torch.testing.assert_close(patches.sum(-1), torch.ones(patches.shape[:-1]))
