"""`vitdemo.explain.attention` against references that share no code with it.

Rollout and relevance are recomputed in numpy, one image at a time, in float64. Attention and
gradients come from timm's own unfused pass. Every public fault that design.md lists for this module
has a test. Weights are random and large: attention is far from uniform, so faults are visible.
"""

import copy
import itertools
import math

import numpy as np
import pytest
import timm
import torch
from timm.models.vision_transformer import ParallelScalingBlock, ParallelThingsBlock, ResPostBlock
from torch.testing import assert_close

from tests.support.factories import random_images
from vitdemo.explain.attention import (
    FUSIONS,
    classifier_map,
    relevance,
    rollout,
    rollout_steps,
)
from vitdemo.explain.checks import check_target
from vitdemo.explain.forward_pass import trace
from vitdemo.models.vit import VisionTransformer

VIT = "vit_tiny_patch16_224"
VARIANTS = {  # name: (timm model, changed options, number of prefix tokens)
    "class token": (VIT, {}, 1),
    "rectangular": (VIT, {"img_size": (16, 32)}, 1),
    "distilled": ("deit_tiny_distilled_patch16_224", {}, 2),
    "registers": (VIT, {"reg_tokens": 4, "no_embed_class": True}, 5),
    "average pooled": (VIT, {"class_token": False, "global_pool": "avg"}, 0),
    "pooled, no fc_norm": (VIT, {"class_token": False, "global_pool": "avg", "fc_norm": False}, 0),
    "layer scale": (VIT, {"init_values": 1e-1}, 1),
    "qk norm": (VIT, {"qk_norm": True}, 1),
    "scale norm": (VIT, {"scale_attn_norm": True, "scale_mlp_norm": True}, 1),
    "pre-norm": (VIT, {"pre_norm": True}, 1),
    "any size": (VIT, {"dynamic_img_size": True}, 1),
}
NAMES = [*VARIANTS, "ours"]


def randomise_weights(model, std=0.25):
    torch.manual_seed(0)
    for name, parameter in model.named_parameters():
        is_norm = name.endswith("weight") and parameter.ndim == 1  # near 0 attention is uniform
        torch.nn.init.normal_(parameter, mean=float(is_norm), std=std)
    return model.eval()


def build_timm(name=VIT, **changes):
    sizes = dict(img_size=32, patch_size=8, depth=3, embed_dim=48, num_heads=3, num_classes=5)
    return randomise_weights(timm.create_model(name, pretrained=False, **{**sizes, **changes}))


def build_ours(depth=3, **changes):
    sizes = dict(image_size=16, patch_size=4, num_classes=5, embed_dim=24, num_heads=3)
    return randomise_weights(VisionTransformer(depth=depth, **{**sizes, **changes}))


def build_model_by_name(name):
    if name == "ours":
        return build_ours()
    model_name, changes, _ = VARIANTS[name]
    return build_timm(model_name, **changes)


def random_attention(L=3, B=2, H=2, N=6, seed=0):
    scores = torch.randn(L, B, H, N, N, generator=torch.Generator().manual_seed(seed)).double()
    return (2 * scores).softmax(dim=-1)


def reference_layer(heads, fusion, discard_ratio, residual, prefix):
    """Fuse one layer's attention (H, N, N) into a row-normalised matrix (N, N)."""
    matrix = {"mean": np.mean, "max": np.max, "min": np.min}[fusion](heads, axis=0)
    P = len(matrix) - prefix
    for row in matrix:
        weakest = prefix + row[prefix:].argsort()
        row[weakest[: math.floor(discard_ratio * P)]] = 0
    if residual:
        matrix = (matrix + np.eye(len(matrix))) / 2
    return matrix / matrix.sum(axis=1, keepdims=True)


def reference_rollout(attention, fusion, discard_ratio, residual, start_layer, prefix):
    results = []
    for image in attention.transpose(0, 1).double().numpy():  # (L, H, N, N)
        result = np.eye(image.shape[-1])
        for layer in image[start_layer:]:
            result = reference_layer(layer, fusion, discard_ratio, residual, prefix) @ result
        results.append(result)
    return torch.tensor(np.stack(results))


def reference_relevance(attention, gradients):
    """Compute relevance (Chefer et al. 2021) from A and dy/dA, each a list of L (B, H, N, N)."""
    results = []
    for b in range(len(attention[0])):
        result = np.eye(attention[0].shape[-1])
        for weights, gradient in zip(attention, gradients, strict=True):
            positive = (weights[b] * gradient[b]).double().numpy().clip(min=0)  # (H, N, N)
            result = result + sum(positive) / len(positive) @ result
        results.append(result)
    return torch.tensor(np.stack(results))


def build_timm_copy(ours):
    """Build a timm model with the weights of ours, because hooks cannot read our attention."""
    model = build_timm(img_size=16, patch_size=4, embed_dim=24)
    model.load_state_dict(ours.state_dict())
    return model.double()


def compute_timm_attention(model, images, target):
    """Return attention and its gradients of timm's unfused pass, by hooks on a copy."""
    model, attention = copy.deepcopy(model), []
    for block in model.blocks:
        block.attn.fused_attn = False
        block.attn.attn_drop.register_forward_hook(lambda module, args, out: attention.append(out))
    logits = model(images)
    for weights in attention:
        weights.retain_grad()
    logits[torch.arange(len(images)), target].sum().backward()
    return [w.detach() for w in attention], [w.grad for w in attention]


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_trace_equals_the_fused_forward_pass(name):
    model = build_model_by_name(name)
    images = random_images(model, batch=3)
    logits, tokens, attention = trace(model, images)
    assert_close(logits, model(images), atol=1e-4, rtol=1e-4)
    prefix = 1 if name == "ours" else VARIANTS[name][2]
    N = prefix + math.prod(model.patch_embed.grid_size)
    assert logits.shape == (3, 5)
    assert tokens.shape == (4, 3, N, model.embed_dim)
    assert attention.shape == (3, 3, 3, N, N)
    assert_close(attention.sum(-1), torch.ones(3, 3, 3, N))
    assert attention.amax(-1).mean() > 2 / N  # uniform attention would hide faults
    for before, block, after in zip(tokens, model.blocks, tokens[1:], strict=False):
        assert_close(block(before), after, atol=1e-4, rtol=1e-4)
    assert_close(model.norm(tokens[-1]), model.forward_features(images), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_attention_and_relevance_equal_unfused_timm(name):
    model = build_model_by_name(name).double()
    images, target = random_images(model), torch.tensor([4, 0])
    attention, gradients = compute_timm_attention(
        build_timm_copy(model) if name == "ours" else model, images, target
    )
    assert_close(trace(model, images).attention, torch.stack(attention))
    expected = reference_relevance(attention, gradients)
    assert_close(relevance(model, images, target), expected, atol=1e-9, rtol=1e-6)
    backwards = reference_relevance(attention, gradients[::-1])  # a public fault must be visible
    assert not torch.allclose(backwards, expected, rtol=0.05)


@torch.no_grad()
def test_trace_supports_another_image_size():
    model = build_model_by_name("any size")
    images = torch.randn(2, 3, 16, 48, generator=torch.Generator().manual_seed(1))
    result = trace(model, images)
    assert result.attention.shape[-1] == 1 + 2 * 6
    assert_close(result.logits, model(images), atol=1e-4, rtol=1e-4)


def test_trace_is_differentiable():
    model = build_model_by_name("class token")
    images = random_images(model).requires_grad_()
    trace(model, images).attention[-1, :, :, 0].square().sum().backward()
    assert images.grad.abs().sum() > 0


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_attention_rows_sum_to_one(dtype):
    model = build_model_by_name("qk norm").to(dtype)
    images = random_images(model, batch=3)
    result = trace(model, images)
    assert (result.attention.dtype, result.logits.dtype) == (torch.float32, torch.float32)
    assert result.tokens.dtype == dtype  # the model's layers can use them again
    assert_close(result.attention.sum(-1), torch.ones(3, 3, 3, 17))
    assert_close(result.logits, model(images).float(), atol=0.5, rtol=0.1)


@torch.no_grad()
def test_half_precision_attention_is_finite_for_large_scores():
    model = build_timm(depth=1, qkv_bias=False)
    model.blocks[0].attn.qkv.weight.mul_(300)
    assert trace(model.half(), random_images(model)).attention.isfinite().all()


def test_trace_keeps_train_mode_with_its_dropout():
    model = build_timm(attn_drop_rate=0.5).train()
    images = random_images(model, batch=3)
    logits, _, attention = trace(model, images)
    assert model.training and all(module.training for module in model.modules())
    assert not torch.allclose(logits, trace(model, images).logits)  # dropout acts ...
    assert_close(attention.sum(-1), torch.ones(3, 3, 3, 17))  # ... after the weights


@torch.no_grad()
def test_trace_in_train_mode_draws_the_same_random_numbers():
    rates = dict.fromkeys(("drop_rate", "pos_drop_rate", "proj_drop_rate", "patch_drop_rate"), 0.3)
    model = build_timm(drop_path_rate=0.5, **rates).train()
    images = random_images(model)
    torch.manual_seed(3)
    expected = model(images)
    torch.manual_seed(3)
    assert_close(trace(model, images).logits, expected, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_results_are_independent_of_the_previous_image():
    model = build_model_by_name("distilled")
    first, second = random_images(model), random_images(model, batch=1, seed=2)
    fresh = trace(copy.deepcopy(model), second), relevance(copy.deepcopy(model), second, 2)
    trace(model, first), relevance(model, first, 1)
    assert_close(trace(model, second), fresh[0])
    assert_close(relevance(model, second, 2), fresh[1])


UNSUPPORTED_MODELS = {
    "resnet": lambda: timm.create_model("resnet10t"),
    "parallel": lambda: build_timm(block_fn=ParallelScalingBlock),
    "parallel things": lambda: build_timm(block_fn=ParallelThingsBlock),
    "post-norm": lambda: build_timm(block_fn=ResPostBlock),
    "differential": lambda: build_timm(attn_layer="diff", num_heads=2),
    "attention pooling": lambda: build_timm(class_token=False, global_pool="map"),
    "no pooling": lambda: build_timm(global_pool=""),
    "rope": lambda: timm.create_model("eva02_tiny_patch14_224", img_size=28, depth=1),
    "relative": lambda: timm.create_model("beit_base_patch16_224", img_size=32, depth=1),
}


@pytest.mark.parametrize("kind", UNSUPPORTED_MODELS)
def test_unsupported_model_raises_a_type_error(kind):
    model = UNSUPPORTED_MODELS[kind]()
    images = torch.randn(1, 3, 28, 28) if kind == "rope" else torch.randn(1, 3, 32, 32)
    with pytest.raises(TypeError, match=f"^Cannot explain {type(model).__name__}: .*\\.$"):
        trace(model, images)


@pytest.mark.parametrize("fusion", ["mean", "max", "min"])
@pytest.mark.parametrize("prefix", [0, 1, 3])
def test_rollout_and_its_steps_equal_the_reference(fusion, prefix):
    attention = random_attention()
    attention[..., :prefix] *= 1e-3  # weaker than any patch, but never discarded
    before = attention.clone()
    choices = itertools.product([0.0, 0.3, 0.5, 0.99], [True, False], [0, 1, 2])
    for discard, residual, start in choices:
        settings = dict(fusion=fusion, discard_ratio=discard, residual=residual, start_layer=start)
        steps = rollout_steps(attention, num_prefix_tokens=prefix, **settings)
        assert len(steps) == 3 - start
        for layers, step in enumerate(steps, start=start + 1):
            layer = attention[:layers]
            expected = reference_rollout(layer, fusion, discard, residual, start, prefix)
            assert_close(step, expected, msg=lambda text, options=settings: f"{options}: {text}")
        assert torch.equal(rollout(attention, num_prefix_tokens=prefix, **settings), steps[-1])
        assert_close(steps.sum(-1), torch.ones(len(steps), 2, 6).double())
    assert torch.equal(attention, before)


def test_settings_may_be_tensors():
    attention = random_attention()
    choices = itertools.product(FUSIONS, [0.0, 0.3, 0.55, 0.95], [True, False])
    for fusion, discard, residual in choices:
        expected = rollout_steps(attention, fusion=fusion, discard_ratio=discard, residual=residual)
        index = torch.tensor(FUSIONS.index(fusion))
        settings = dict(
            fusion=index, discard_ratio=torch.tensor(discard), residual=torch.tensor(residual)
        )
        assert torch.equal(rollout_steps(attention, **settings), expected)


@pytest.mark.parametrize("P", [90, 180, 196])
def test_a_discard_ratio_discards_the_exact_number_of_patches(P):
    attention = torch.full((1, 1, 1, P, P), 1 / P)
    for percent in range(0, 100, 5):
        for ratio in (percent / 100, torch.tensor(percent / 100)):
            result = rollout_steps(
                attention, discard_ratio=ratio, residual=False, num_prefix_tokens=0
            )
            assert ((result == 0).sum(-1) == percent * P // 100).all(), percent


def test_discard_ratio_is_exact_for_equal_weights():
    result = rollout(torch.full((1, 1, 1, 5, 5), 0.2), discard_ratio=0.5, residual=False)
    assert ((result == 0).sum(-1) == 2).all()


def test_min_fusion_of_disjoint_heads_yields_identity_rows():
    disjoint = torch.stack([torch.eye(4), torch.eye(4).roll(1, dims=1)]).expand(2, 1, 2, 4, 4)
    result = rollout(disjoint, fusion="min", residual=False)
    assert_close(result, torch.eye(4)[None])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"fusion": "median"}, "'median'.*mean, max, min"),
        ({"discard_ratio": 1.0}, "discard_ratio 1.0"),
        ({"discard_ratio": -0.1}, "discard_ratio -0.1"),
        ({"discard_ratio": math.nan}, "discard_ratio nan"),
        ({"start_layer": 3}, r"start_layer 3 .*0\.\.2"),
        ({"start_layer": -1}, r"start_layer -1 .*0\.\.2"),
        ({"num_prefix_tokens": 6}, r"num_prefix_tokens 6 .*0\.\.5"),
    ],
)
def test_rollout_error_names_an_invalid_setting(setting, message):
    with pytest.raises(ValueError, match=message):
        rollout(random_attention(), **setting)


def test_errors_name_an_invalid_shape_and_prefix():
    with pytest.raises(ValueError, match=r"\(2, 2, 6, 6\)"):
        rollout(random_attention()[0])
    for prefix in (-1, 6):
        with pytest.raises(ValueError, match=rf"num_prefix_tokens {prefix} .*0\.\.5"):
            classifier_map(random_attention()[0, :, 0], prefix, slice(0, 1))


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        (5, ValueError, r"target .*5.* 0\.\.4"),
        (-1, ValueError, r"target .*-1.* 0\.\.4"),
        (torch.tensor([0, 5, 1]), ValueError, r"target .*5.* 0\.\.4"),
        (torch.tensor([0, 1]), ValueError, r"\(2,\), not \(\) or \(3,\)"),
        (1.0, TypeError, "float32"),
    ],
)
def test_error_names_an_invalid_class(target, error, message):
    with pytest.raises(error, match=message):
        check_target(target, torch.zeros(3, 3, 8, 8), 5)
