"""The models compared with timm's, and with hand-worked numbers."""

import threading
from contextlib import suppress
from dataclasses import replace

import pytest
import timm
import torch
from timm.models.vision_transformer import VisionTransformer as TimmViT

from tests.support.factories import random_model
from vitdemo.errors import ModelError
from vitdemo.explain.forward_pass import trace
from vitdemo.models import (
    ModelSpec,
    build_model,
    count_macs,
    count_macs_by_module,
    count_parameters,
)
from vitdemo.models.capabilities import has_overlapping_convolutions
from vitdemo.models.vit import VisionTransformer, sincos_position

SIZES = {"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2}
TINY = ModelSpec("vit", image_size=16, options=SIZES)
DEIT = ModelSpec("timm", image_size=32, name="deit_tiny_patch16_224", options={"depth": 1})


def build_timm_equivalent(**options):
    return TimmViT(img_size=16, num_classes=5, **SIZES, **options)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (TINY, False),
        (DEIT, False),
        (replace(TINY, options=SIZES | {"patch_size": 4, "stem": "conv"}), True),
        (ModelSpec("convnet", 16), True),
        (ModelSpec("resnet18", 16), True),
    ],
)
def test_only_patch_embeddings_have_no_overlapping_convolutions(spec, expected):
    assert has_overlapping_convolutions(build_model(spec, 5)) is expected


MEAN_POOLING = {"global_pool": "avg"}


@torch.no_grad()
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [({}, {}), (MEAN_POOLING, MEAN_POOLING | {"class_token": False, "fc_norm": False})],
)
def test_logits_equal_timm_with_the_same_weights(ours, theirs):
    model = random_model(replace(TINY, options=SIZES | ours), classes=5)
    twin = build_timm_equivalent(**theirs).eval()
    twin.load_state_dict(model.state_dict(), strict=True)
    images = torch.randn(3, 3, 16, 16)
    assert torch.allclose(model(images), twin(images), atol=1e-5)
    prefix = model.num_prefix_tokens
    assert trace(model, images).attention.shape == (2, 3, 2, 4 + prefix, 4 + prefix)


@pytest.mark.parametrize("build", [lambda: build_model(TINY, 5), build_timm_equivalent])
@pytest.mark.parametrize("training", [True, False])
def test_parameters_and_macs_match_hand_worked_counts(build, training):
    patches, tokens = 3 * 8 * 8 * 16 + 16, 16 + 5 * 16
    block = 2 * 32 + (16 * 48 + 48) + (16 * 16 + 16) + (16 * 64 + 64) + (64 * 16 + 16)
    model = build().train(training)
    assert count_parameters(model) == patches + tokens + 2 * block + 32 + 85
    attention = 5 * 16 * 48 + 2 * (5 * 5 * 16) + 5 * 16 * 16
    block = attention + 2 * 5 * 16 * 64
    assert count_macs(model, 16) == 4 * (3 * 8 * 8) * 16 + 2 * block + 16 * 5
    assert model.training == training  # the mode is unchanged
    assert all(p.grad is None for p in model.parameters())


def test_macs_of_modules_are_counted_while_another_thread_runs_the_model():
    model, entered, ends = random_model(TINY, classes=5), threading.Event(), threading.Event()
    expected = count_macs_by_module(model, 16)
    other = threading.Thread(target=model, args=[torch.zeros(1, 3, 16, 16)])

    def hold_other(*_):
        if threading.current_thread() is other:
            entered.set()
            assert ends.wait(10)

    def start_other(*_):
        if not other.is_alive():
            other.start()
            assert entered.wait(10)

    model.blocks[1].register_forward_pre_hook(hold_other)
    start = model.patch_embed.register_forward_hook(start_other)
    try:
        assert count_macs_by_module(model, 16) == expected
    finally:
        start.remove()
        ends.set()
        other.join()


@pytest.mark.parametrize("spec", [TINY, DEIT], ids=lambda spec: spec.family)
def test_fused_and_explicit_attention_agree(spec):
    model, images = random_model(spec, classes=5), torch.randn(3, 3, spec.image_size, 16)
    images = torch.cat([images] * (spec.image_size // 16), -1)  # square
    results = []
    for fused in (True, False):
        for module in model.modules():
            if hasattr(module, "fused_attn"):
                module.fused_attn = fused
        logits = model(images)
        gradients = torch.autograd.grad(logits.sum(), list(model.parameters()), allow_unused=True)
        results.append((logits, gradients[0], count_macs(model, spec.image_size)))
    (ours, gradient, macs), (others, another, also) = results
    torch.testing.assert_close(ours, others)
    torch.testing.assert_close(gradient, another, rtol=1e-3, atol=1e-3)
    assert macs == also


def test_resnet_maps_32_pixels_to_4_by_4_features():
    model, shapes = build_model(ModelSpec("resnet18"), 10).eval(), []
    assert count_parameters(model) == 11_173_962
    model.layer4.register_forward_hook(lambda module, args, output: shapes.append(output.shape))
    assert model(torch.zeros(1, 3, 32, 32)).shape == (1, 10)
    assert shapes == [(1, 512, 4, 4)]


def test_convnet_has_the_airbench_size_and_ends_at_3_by_3():
    model = build_model(ModelSpec("convnet"), 10).eval()
    frozen = model.whiten.weight.numel()
    assert count_parameters(model) + frozen == 1_971_640
    assert count_macs(model, 32) == 118_147_360
    assert model.forward_features(torch.zeros(1, 3, 32, 32)).shape == (1, 256, 3, 3)
    wide = build_model(ModelSpec("convnet", options={"widths": [128, 384, 384]}), 7)
    assert wide(torch.zeros(2, 3, 32, 32)).shape == (2, 7)


def test_whitening_gives_all_patch_directions_equal_variance():
    torch.manual_seed(0)
    mixed = torch.einsum("dc,nchw->ndhw", torch.randn(3, 3), torch.randn(40, 3, 12, 12))
    images = torch.nn.functional.avg_pool2d(mixed, 3, stride=1)  # neighbours are correlated
    whiten = build_model(ModelSpec("convnet"), 10).whiten
    whiten.fit(images)
    output = whiten(images).transpose(0, 1).flatten(1)  # (24, all patches)
    half = output[:12]
    assert torch.equal(output[12:], -half)
    covariance = (half @ half.T / half.shape[1]).detach()
    raw = torch.nn.functional.unfold(images, 2).transpose(1, 2).flatten(0, 1)
    variances = torch.linalg.eigvalsh(raw.T @ raw / len(raw))
    expected = torch.diag(variances / (variances + 5e-4))
    torch.testing.assert_close(covariance, expected, atol=2e-3, rtol=0)


@torch.no_grad()
def test_model_without_position_embedding_ignores_patch_order():
    images = torch.randn(2, 3, 16, 16)
    shifted = images.roll(8, dims=-1)  # the two patches of a row are swapped
    for kind, same in (("none", True), ("learn", False)):
        model = random_model(replace(TINY, options=SIZES | {"pos_embed": kind}))
        assert torch.allclose(model(images), model(shifted), atol=1e-4) == same
        assert torch.allclose(trace(model, images).logits, model(images), atol=1e-4)


@pytest.mark.parametrize("depth", [1, 3])
def test_drop_path_rate_increases_linearly_with_depth(depth):
    model = VisionTransformer(**SIZES | {"depth": depth}, image_size=16, drop_path_rate=0.2)
    rates = [getattr(block.drop_path2, "drop_prob", 0.0) for block in model.blocks]
    assert rates == pytest.approx([0.0, 0.1, 0.2][:depth])


def test_conv_stem_keeps_the_token_count_and_widens_receptive_field():
    sizes = {"embed_dim": 16, "depth": 2, "num_heads": 2}
    model = random_model(ModelSpec("vit", 16, options=sizes | {"stem": "conv"}))
    assert model.patch_embed.grid_size == (4, 4)
    assert model.patch_embed.proj.out_channels == 16
    image = torch.rand(1, 3, 16, 16, requires_grad=True)
    model.patch_embed(image)[0, 5].sum().backward()  # the patch covers pixels 4 to 7
    receptive_field = (image.grad[0] != 0).any(0)
    assert model.patch_embed(image).shape == (1, 16, 16)
    assert receptive_field.any(0).nonzero().min() < 4 and receptive_field.any(0).nonzero().max() > 7
    logits, tokens, attention = trace(model, image)
    assert torch.allclose(logits, model(image), atol=1e-4)
    assert (tokens.shape, attention.shape) == ((3, 1, 17, 16), (2, 1, 2, 17, 17))
    bare = VisionTransformer(image_size=16, stem="conv", **sizes | {"depth": 0})
    assert count_macs(bare, 16) == 16 * 16 * 27 * 64 + 8 * 8 * 9 * 64 * 16 + 16 * 10


INVALID_OPTIONS = {"num_heads": 3, "init": "zeros", "stem": "sum", "pos_embed": "sine"}
INVALID_OPTIONS |= {"global_pool": "max"}


@pytest.mark.parametrize("option", INVALID_OPTIONS)
def test_invalid_model_options_are_rejected(option):
    value = INVALID_OPTIONS[option]
    with pytest.raises(ModelError, match=f"{option}.*{value}"):
        build_model(replace(TINY, options=SIZES | {option: value}), 10)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (ModelSpec("timm", name="vit_huge_patch1"), "'vit_huge_patch1'"),
        (replace(DEIT, image_size=100), "100 pixels into patches of 16"),
        (replace(TINY, image_size=17), "17 is not a multiple of patch_size 8"),
        (replace(TINY, options=SIZES | {"stem": "conv"}), "patch_size 8 do not fit the conv stem"),
    ],
)
def test_invalid_model_specs_are_named_in_the_error(spec, message):
    with pytest.raises(ModelError, match=message):
        build_model(spec, 10)


@pytest.mark.parametrize("error", [OSError("no route to host"), TimeoutError()])
def test_failed_weight_download_suggests_the_weights_option(monkeypatch, error):
    create = timm.create_model

    def fail_if_pretrained(*args, pretrained=False, **options):
        if pretrained:
            raise error
        return create(*args, **options)

    monkeypatch.setattr(timm, "create_model", fail_if_pretrained)
    with pytest.raises(ModelError, match=rf"{type(error).__name__}: {error}.*--weights"):
        build_model(DEIT, 10, pretrained=True)


def test_mimetic_init_has_the_expected_weight_products():
    torch.manual_seed(0)
    sizes = {"patch_size": 4, "embed_dim": 64, "depth": 1, "num_heads": 2}
    attention = VisionTransformer(image_size=16, init="mimetic", **sizes).blocks[0].attn
    query, key, value = attention.qkv.weight.detach().chunk(3)
    for head in range(2):
        span = slice(32 * head, 32 * head + 32)
        product = query[span].T @ key[span]  # (D, D), 0.7 I at half its rank
        assert product.diagonal().mean() > 0.25
        assert abs(product.mean()) < 0.02
    product = attention.proj.weight.detach() @ value
    assert product.diagonal().mean().item() == pytest.approx(-0.4, abs=0.03)
    assert abs(product.fill_diagonal_(0).mean()) < 0.01


def test_sincos_positions_are_distinct_and_of_equal_norm():
    positions = sincos_position(4, 6, 16)
    assert positions.shape == (24, 16)
    assert torch.allclose(positions.norm(dim=1), torch.tensor(8.0).sqrt())
    assert torch.cdist(positions, positions).fill_diagonal_(9).min() > 0.1
    assert torch.equal(positions[0, :4], positions[18, :4])  # same x, other y


def test_concurrent_mac_counts_restore_fused_attention():
    backends = "flash_sdp_enabled", "mem_efficient_sdp_enabled", "math_sdp_enabled"
    barrier, first_done, entered = threading.Barrier(2), threading.Event(), []

    class Slow(torch.nn.Linear):
        def forward(self, images):
            entered.append(self)
            with suppress(threading.BrokenBarrierError):  # the other thread may wait for a lock
                barrier.wait(0.2)
                if entered[1] is self:  # the second to enter leaves last
                    first_done.wait(1)
            return super().forward(images)

    def count():
        count_macs(Slow(16, 5), 16)
        first_done.set()

    before = [getattr(torch.backends.cuda, backend)() for backend in backends]
    threads = [threading.Thread(target=count) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [getattr(torch.backends.cuda, backend)() for backend in backends] == before
