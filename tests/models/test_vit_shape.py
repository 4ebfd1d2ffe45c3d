"""Models are rebuilt from tensors alone, and compute what their own code computes."""

import re

import pytest
import timm
import torch
from timm.models import vision_transformer as vits
from timm.models.deit import VisionTransformerDistilled

from tests.support.factories import TIMM_KINDS, VIT, random_model, timm_spec
from tests.support.foreign_checkpoints import (
    KINDS,
    PATCH,
    compute_logits,
    make_config,
    make_tensors,
)
from vitdemo.errors import ModelError
from vitdemo.explain.forward_pass import trace
from vitdemo.models import transformers_names
from vitdemo.models.vit_shape import (
    build_from_tensors,
    choose_num_heads,
    find_vit_tensors,
    infer_shape,
    make_spec,
)

VARIANTS = {  # (model_type, options)
    **{kind: (kind, {}) for kind in KINDS},
    "deit with teacher": ("deit", {"teacher": True}),
    "dinov2, SwiGLU": ("dinov2", {"gated": True}),
}


def open_tensors(content, num_heads=0, image_size=0, antialias=True, **options):
    tensors = find_vit_tensors(content)
    shape = infer_shape(tensors)
    heads, _ = choose_num_heads(shape, num_heads)
    size = image_size or shape.image_size
    spec = make_spec(tensors, shape, size, num_heads=heads, **options)
    return build_from_tensors(tensors, shape, spec, antialias=antialias)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("size", [32, 48])
def test_transformers_tensors_give_the_logits_of_the_published_formulas(variant, size):
    kind, options = VARIANTS[variant]
    tensors, eps = make_tensors(kind, **options), make_config(kind)["layer_norm_eps"]
    smooth = kind == "dinov2_with_registers"
    model = open_tensors(tensors, 4, size, eps=eps, antialias=smooth)
    images = torch.randn(2, 3, size, size)
    expected = compute_logits(kind, tensors, images, eps, antialias=smooth)
    with torch.no_grad():
        assert torch.allclose(model(images), expected, atol=1e-4)
        found = trace(model, images)
    assert torch.allclose(found.logits, expected, atol=1e-4)
    assert found.attention.shape[-1] == (size // PATCH) ** 2 + model.num_prefix_tokens


TIMM_VARIANTS = {
    **TIMM_KINDS,
    "q/k norm, LayerScale": timm_spec(qk_norm=True, init_values=0.5),
    "registers with positions": timm_spec(reg_tokens=4),
    "norm before blocks": timm_spec(pre_norm=True),
    "no biases": timm_spec(qkv_bias=False, proj_bias=False),
    "mean, class token": timm_spec(global_pool="avg"),
    "MLP ratio": timm_spec(mlp_ratio=2.7),
    "no head": timm_spec(),
    "ours": VIT,
}


@pytest.mark.parametrize("variant", TIMM_VARIANTS)
def test_timm_models_are_rebuilt_from_their_tensors(variant):
    spec = TIMM_VARIANTS[variant]
    model = random_model(spec, classes=0 if variant == "no head" else 7)
    images = torch.randn(2, 3, spec.image_size, spec.image_size)
    rebuilt = open_tensors(model.state_dict(), model.blocks[0].attn.num_heads)
    with torch.no_grad():
        assert torch.allclose(rebuilt(images), model(images), atol=1e-5)
    assert type(rebuilt) in (vits.VisionTransformer, VisionTransformerDistilled)
    assert rebuilt.num_classes == (0 if variant == "no head" else 7)


def test_original_dinov2_names_are_known():
    spec = timm_spec(reg_tokens=4, no_embed_class=True, init_values=1.0)
    model = random_model(spec)
    tensors = model.state_dict()
    tensors["register_tokens"] = tensors.pop("reg_token")
    position = torch.randn(1, 1, 48)
    tensors["pos_embed"] = torch.cat([position, tensors["pos_embed"]], 1)
    tensors["cls_token"] = tensors["cls_token"] - position
    tensors |= {re.sub(r"ls(\d)\.gamma", r"gamma_\1", n): tensors.pop(n) for n in list(tensors)}
    images = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        assert torch.allclose(open_tensors(tensors, 3)(images), model(images), atol=1e-5)


def test_averaged_weights_with_a_separate_head_are_found():
    model, images = random_model(timm_spec(), classes=7), torch.randn(1, 3, 32, 32)
    tensors = {
        (f"model.backbone.{n}" if not n.startswith("head") else n.replace("head", "model.fc")): t
        for n, t in model.state_dict().items()
    }
    student = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
    content = {"model": student, "model_ema": tensors, "optimizer": {"state": {}}, "epoch": 3}
    with torch.no_grad():
        assert torch.allclose(open_tensors(content, 3)(images), model(images), atol=1e-5)
    half = find_vit_tensors({name: tensor.half() for name, tensor in tensors.items()})
    assert {tensor.dtype for tensor in half.values()} == {torch.float32}


REFUSED = {
    "swin_tiny_patch4_window7_224": "relative position bias \\(as in Swin and BEiT\\)",
    "beit_base_patch16_224": "relative position bias|separate biases",
    "cait_xxs24_224": "class attention layers \\(as in CaiT\\)",
    "vit_tiny_r_s16_p8_224": "a convolutional backbone before the patches \\(a hybrid\\)",
    "eva02_tiny_patch14_224": "separate biases|rotary",
    "vit_base_patch16_siglip_224": "attention pooling",
    "resnet18": "convolutional layers \\(as in ResNet\\)",
    "mixer_s32_224": "no Vision Transformer|no matrix",
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_architectures_are_refused_by_name(name):
    with torch.device("meta"):
        tensors = timm.create_model(name).state_dict()
    with pytest.raises(ModelError, match=REFUSED[name]) as caught:
        open_tensors({n: torch.zeros(t.shape) for n, t in tensors.items()})
    assert "Supported: plain Vision Transformers of timm" in str(caught.value)


def change(**replaced):
    """Return the tensors of a tiny model with replaced tensors; None removes one."""
    tensors = random_model(timm_spec(), classes=7).state_dict() | replaced
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}


DAMAGED = {
    "no tensors": ({"epoch": 3}, "contains no tensors"),
    "extra tokens": (change(pos_embed=torch.zeros(1, 19, 48)), "unknown extra tokens"),
    "relative positions": (change(pos_embed=torch.zeros(1, 4, 4, 48)), "fits no square grid"),
    "unknown part": (change(gate=torch.zeros(48)), "unexpected: 'gate'"),
    "grey images": (change(**{"patch_embed.proj.weight": torch.zeros(48, 1, 8, 8)}), "RGB images"),
    "wide patches": (
        change(**{"patch_embed.proj.weight": torch.zeros(48, 3, 8, 4)}),
        "8 x 4 pixels",
    ),
    "missing layer": (
        {n: t for n, t in change().items() if not n.startswith("blocks.0.")},
        "no tensors of layer 1. The file is incomplete",
    ),
    "no norm bias": (change(**{"blocks.1.norm1.bias": None}), "missing: 'blocks.1.norm1.bias'"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_incomplete_and_unknown_tensors_are_reported(kind):
    content, message = DAMAGED[kind]
    with pytest.raises(ModelError, match=message):
        open_tensors(content, 3)


def test_incomplete_transformers_file_is_reported():
    tensors = make_tensors("vit")
    del tensors["vit.encoder.layer.1.attention.attention.key.weight"]
    with pytest.raises(ModelError, match=r"no tensor 'blocks.1.attn.key.weight'.*incomplete"):
        open_tensors(tensors, 4)


def test_number_of_heads_is_read_stated_or_assumed():
    shape = infer_shape(find_vit_tensors(random_model(timm_spec(embed_dim=192)).state_dict()))
    assert choose_num_heads(shape) == (3, True)
    assert choose_num_heads(shape, 6) == (6, False)
    with pytest.raises(ModelError, match="7 attention heads do not fit a width of 192"):
        choose_num_heads(shape, 7)
    small = infer_shape(find_vit_tensors(random_model(timm_spec()).state_dict()))
    with pytest.raises(ModelError, match=r"width 48 is not a multiple of 64.*heads=6"):
        choose_num_heads(small)
    known = infer_shape(find_vit_tensors(random_model(timm_spec(qk_norm=True)).state_dict()))
    assert choose_num_heads(known) == (3, False)
    with pytest.raises(ModelError, match="query norm requires 3 attention heads, not 4"):
        choose_num_heads(known, 4)


def test_configs_of_other_transformers_models_are_refused():
    config = make_config("vit")
    transformers_names.check_config(config)
    for field, value, message in (
        ("model_type", "swin", "This model is transformers' ViTForImageClassification, which"),
        ("num_channels", 1, "has num_channels 1"),
        ("hidden_act", "mish", "unknown activation 'mish'"),
    ):
        with pytest.raises(ModelError, match=message):
            transformers_names.check_config(config | {field: value})
    with pytest.raises(ModelError, match="model_type 'swin'"):
        transformers_names.check_config({"model_type": "swin"})


def test_labels_come_in_the_order_of_the_outputs():
    get_labels = transformers_names.get_labels
    assert get_labels({"id2label": {"1": "b", "0": "a"}}) == ("a", "b")
    assert get_labels({"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}) == ()
    assert get_labels({}) == ()
    for labels in ({"0": "a", "2": "b"}, {"x": "a"}, ["a"]):
        with pytest.raises(ModelError, match="id2label"):
            get_labels({"id2label": labels})
