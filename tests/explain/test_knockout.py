"""Attention knock-out compared with torch's masked attention in float64."""

import copy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from benchmarks.knockout import compute_knockout_metrics, predict_with_blocked_patches
from tests.support.factories import (
    ATTENTION_MODELS,
    RESNET,
    TIMM_KINDS,
    VIT,
    make_context,
    make_run,
    noise,
    random_images,
    random_model,
)
from vitdemo.analyses.knockout import KnockoutResult, predict_with_knockout
from vitdemo.explain.knockout import build_patch_knockout, compute_knockout_logits
from vitdemo.page.explore.inside import knockout as page
from vitdemo.page.image_sources import ImageRequest
from vitdemo.page.view_state import ViewState

MODELS = {name: spec for name, spec in ATTENTION_MODELS.items() if name != "average pooled"}


@pytest.fixture(params=MODELS)
def model(request):
    return random_model(MODELS[request.param]).double()


def reference_masked_logits(model, images, blocked):
    """Compute logits with timm's block formula and torch's attention mask (L, N, N)."""
    x = model._pos_embed(model.patch_embed(images))
    for block, mask in zip(model.blocks, blocked, strict=True):
        attn, normed = block.attn, block.norm1(x)
        B, N, D = normed.shape
        qkv = attn.qkv(normed).view(B, N, 3, attn.num_heads, D // attn.num_heads)
        q, k, v = (qkv[:, :, i].transpose(1, 2) for i in range(3))
        if hasattr(attn, "q_norm"):
            q, k = attn.q_norm(q), attn.k_norm(k)
        output = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=~mask)
        update = attn.proj(output.transpose(1, 2).reshape(B, N, D))
        x = x + (block.ls1(update) if hasattr(block, "ls1") else update)
        update = block.mlp(block.norm2(x))
        x = x + (block.ls2(update) if hasattr(block, "ls2") else update)
    return model.forward_head(model.norm(x))


@torch.no_grad()
def test_logits_are_equal_for_all_images_if_all_layers_are_blocked(model):
    images = random_images(model)
    blocked = build_patch_knockout(model, range(len(model.blocks)))
    logits = compute_knockout_logits(model, images, blocked)
    assert torch.equal(logits[0], logits[1])
    assert (model(images)[0] - model(images)[1]).abs().max() > 1e-3


@torch.no_grad()
def test_register_tokens_pass_on_the_image_if_not_blocked():
    model = random_model(MODELS["registers"]).double()
    blocked = build_patch_knockout(model, range(len(model.blocks)))
    blocked[:, 1 : model.num_prefix_tokens] = False
    first, second = compute_knockout_logits(model, random_images(model), blocked)
    assert (first - second).abs().max() > 1e-6


@torch.no_grad()
@pytest.mark.parametrize("layers", [[], [0], [1], [0, 1]])
def test_blocked_layers_equal_torch_masked_attention(model, layers):
    images, blocked = random_images(model), build_patch_knockout(model, layers)
    logits = compute_knockout_logits(model, images, blocked)
    expected = reference_masked_logits(model, images, blocked)
    torch.testing.assert_close(logits, expected, atol=1e-9, rtol=0)
    assert ((logits - model(images)).abs().max() > 1e-6) == bool(layers)


@torch.no_grad()
def test_masks_can_differ_by_image_and_the_model_is_unchanged(model):
    images, weights = random_images(model), copy.deepcopy(model.state_dict())
    first, second = build_patch_knockout(model, [0]), build_patch_knockout(model, [1])
    blocked = torch.stack([first, second], dim=1)  # (L, B, N, N)
    logits = compute_knockout_logits(model, images, blocked)
    torch.testing.assert_close(logits[:1], compute_knockout_logits(model, images[:1], first))
    torch.testing.assert_close(logits[1:], compute_knockout_logits(model, images[1:], second))
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())


def test_mask_excludes_special_tokens_from_patches_only():
    model = random_model(MODELS["distilled"])
    blocked = build_patch_knockout(model, [1])
    assert not blocked[0].any()
    assert blocked[1, :2, 2:].all() and not blocked[1, :, :2].any() and not blocked[1, 2:].any()


def test_invalid_layers_models_and_masks_raise_errors():
    model = random_model(VIT)
    images, blocked = random_images(model), build_patch_knockout(model, [])
    with pytest.raises(ValueError, match=r"no layer 3: the model has layers 0\.\.2"):
        build_patch_knockout(model, [3])
    with pytest.raises(ValueError, match="mean of its patch tokens"):
        build_patch_knockout(random_model(TIMM_KINDS["average pooled"]), [0])
    with pytest.raises(ValueError, match="shape"):
        compute_knockout_logits(model, images, blocked[:2])
    assert compute_knockout_logits(model, images, torch.ones_like(blocked)).isnan().all()


def test_benchmark_measures_accuracy_confidence_and_agreement():
    baseline = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    masked = torch.tensor([[0.4, 0.6], [0.3, 0.7], [0.9, 0.1]])
    metrics = compute_knockout_metrics(masked, baseline, torch.tensor([1, 1, 1]))
    assert metrics == pytest.approx((2 / 3, (0.4 + 0.7 + 0.9) / 3, 2 / 3))
    model = random_model(VIT)
    pixels = random_images(model, batch=3)
    found = predict_with_blocked_patches(model, pixels, [])
    torch.testing.assert_close(found, model(pixels).softmax(1), atol=1e-5, rtol=0)


IMAGE = noise(size=(32, 32))


@pytest.fixture(scope="module")
def runs_of_kinds(tmp_path_factory):
    root = tmp_path_factory.mktemp("kinds")
    for name, spec in {"vit": VIT, "resnet": RESNET, **TIMM_KINDS}.items():
        make_run(root / name.replace(" ", "-"), spec)
    return make_context(root)


def test_knockout_probabilities_equal_those_of_the_model(runs_of_kinds):
    run = runs_of_kinds.find_run("registers")
    model = runs_of_kinds.load_model(run)
    _, pixels = runs_of_kinds.prepare_input(run.preprocessing, IMAGE)
    result = predict_with_knockout(runs_of_kinds, run, IMAGE, [1])
    with torch.no_grad():
        logits = compute_knockout_logits(model, pixels, build_patch_knockout(model, [1]))
        expected, baseline = (each.softmax(1)[0] for each in (logits, model(pixels)))
    np.testing.assert_allclose(result.after, expected, atol=1e-5)
    np.testing.assert_allclose(result.before, baseline, atol=1e-4)
    assert result.layers == (1,) and result.num_layers == len(model.blocks)


def make_state(name: str, first: object, last: object) -> ViewState:
    blocked = {"first_blocked": first, "last_blocked": last}
    return ViewState(ImageRequest("photo:cat"), name, blocked)


@pytest.mark.parametrize(
    ("name", "message"),
    [("resnet", "no attention to block"), ("average-pooled", "mean of its patch tokens")],
)
def test_unsupported_models_get_an_explanation_and_locked_sliders(runs_of_kinds, name, message):
    found = page.payload(runs_of_kinds, make_state(name, 1, 2))
    assert message in found.data["problem"]
    locked = {"maximum": 12, "interactive": False}
    assert found.controls == {"first_blocked": locked, "last_blocked": locked}


@pytest.mark.parametrize(
    ("first", "last", "kept", "blocked"),
    [
        (1, 0, (1, 0), []),
        (1, 2, (1, 2), [0, 1]),
        (2, 2, (2, 2), [1]),
        (3, 1, (3, 1), []),
        (1, 99, (1, 3), [0, 1, 2]),
        ("x", None, (1, 0), []),
    ],
)
def test_sliders_select_layers_and_stay_within_the_model(runs_of_kinds, first, last, kept, blocked):
    assert [*page.select_blocked_layers(*kept)] == blocked
    found = page.payload(runs_of_kinds, make_state("vit", first, last))
    for value, slider in zip(kept, found.controls.values(), strict=True):
        assert slider == {"maximum": 3, "interactive": True, "value": value}
    layers = [layer + 1 for layer in blocked]
    assert found.data["layers"] == ([layers[0], layers[-1]] if layers else [])


def test_result_lists_the_top_classes_and_the_new_prediction():
    classes = tuple("abcdefg")
    before = np.array([0.5, 0.2, 0.1, 0.1, 0.05, 0.03, 0.02])
    after = np.array([0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.4])
    run = SimpleNamespace(name="vit", classes=classes)
    result = KnockoutResult(run, before, after, (0, 1), ("class token",), 3)
    found = page.describe_result(result)
    assert found["predicted"] == ["a", "g"]
    assert (found["layers"], found["depth"]) == ([1, 2], 3)
    rows = list(zip(found["classes"], found["before"], found["now"], strict=True))
    assert (rows[0], rows[-1], len(rows)) == (("a", 0.5, 0.1), ("g", 0.02, 0.4), 6)
    assert page.describe_result(replace(result, layers=()))["layers"] == []
