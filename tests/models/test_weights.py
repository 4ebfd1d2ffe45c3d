"""Weights files in the layouts of public code, and the errors for files that do not fit."""

import argparse
import json
from dataclasses import replace

import pytest
import timm
import torch
from safetensors.torch import load_file, save_file

from tests.support.factories import VIT, make_run, timm_spec
from vitdemo.cli import train
from vitdemo.errors import ModelError, RunError
from vitdemo.models import ModelSpec, build_model
from vitdemo.models.masked import MaskedAutoencoder
from vitdemo.models.weights import find_tensors, read_weights_file
from vitdemo.runs.origin import check_same_heads

SPEC = timm_spec()  # 8 px patches of 32 px, 2 layers, width 48


def build_random_model(spec: ModelSpec = SPEC, seed: int = 1, classes: int = 7) -> torch.nn.Module:
    torch.manual_seed(seed)
    return build_model(spec, classes)


def add_prefix(tensors: dict, prefix: str) -> dict:
    return {f"{prefix}{name}": tensor for name, tensor in tensors.items()}


def rename_compiled_blocks(tensors: dict) -> dict:
    """Rename tensors as `torch.compile` of each block does."""
    return {name.replace(".norm1.", "._orig_mod.norm1."): t for name, t in tensors.items()}


def make_noise_like(tensors: dict) -> dict:
    return {name: torch.randn_like(tensor) for name, tensor in tensors.items()}


def make_dino_checkpoint(tensors: dict, prefix: str = "backbone.") -> dict:
    """Build DINO's checkpoint: two networks with projection heads, and the training options."""
    head = {"head.mlp.0.weight": torch.ones(4, 48), "head.last_layer.weight_v": torch.ones(9, 4)}
    student = add_prefix(make_noise_like(tensors), f"module.{prefix}") | add_prefix(head, "module.")
    teacher = add_prefix(tensors, prefix) | head
    return {"student": student, "teacher": teacher, "args": argparse.Namespace(lr=0.1), "epoch": 3}


LAYOUTS = {
    "as it is": lambda t: t,
    "module.backbone": lambda t: add_prefix(t, "module.backbone."),
    "compiled inside DDP": lambda t: add_prefix(t, "module._orig_mod."),
    "DDP inside compiled": lambda t: add_prefix(t, "_orig_mod.module."),
    "compiled blocks": rename_compiled_blocks,
    "model_state_dict": lambda t: {"model_state_dict": add_prefix(t, "module.")},
    "lightning": lambda t: {"state_dict": add_prefix(t, "model.encoder.")},
    "DINO": make_dino_checkpoint,
    "DINOv2": lambda t: make_dino_checkpoint(t | {"mask_token": torch.ones(1, 48)}),
    "teacher alone, nested": lambda t: {"teacher": {"backbone": t}},
    "MAE with its decoder": lambda t: {
        "model": t
        | {"mask_token": torch.ones(1, 1, 8), "decoder_blocks.0.norm1.bias": torch.ones(8)}
    },
    "MoCo v3": lambda t: {
        "state_dict": add_prefix(make_noise_like(t), "module.base_encoder.")
        | add_prefix(t, "module.momentum_encoder.")
    },
    "timm's averaged model": lambda t: {"state_dict": make_noise_like(t), "state_dict_ema": t},
    "an averaged model of torch": lambda t: (
        add_prefix(t, "module.") | {"n_averaged": torch.tensor(3)}
    ),
    "half precision": lambda t: {name: tensor.bfloat16() for name, tensor in t.items()},
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("spec", [SPEC, replace(VIT, options={**VIT.options, "embed_dim": 48})])
def test_a_known_layout_loads_all_but_the_head(layout, spec, tmp_path):
    trained = build_random_model(spec).state_dict()
    torch.save(LAYOUTS[layout](trained), tmp_path / "weights.pth")
    loaded = build_model(spec, 5, pretrained=True, weights=tmp_path / "weights.pth").state_dict()
    tolerances = {"rtol": 1e-2, "atol": 1e-3} if layout == "half precision" else {}
    for name, tensor in trained.items():
        if name.startswith("head."):
            assert loaded[name].shape[0] == 5
        else:
            torch.testing.assert_close(loaded[name], tensor, msg=name, **tolerances)


def test_encoder_is_extracted_from_a_masked_autoencoder():
    encoder = build_model(VIT, 4)
    checkpoint = {"model": add_prefix(MaskedAutoencoder(encoder).state_dict(), "module.")}
    tensors = find_tensors(checkpoint, build_model(VIT, 4))
    assert set(tensors) == set(encoder.state_dict())
    assert all(torch.equal(tensors[name], t) for name, t in encoder.state_dict().items())


def test_position_embeddings_are_resized_as_timm_does(tmp_path):
    trained = build_random_model(replace(SPEC, image_size=64))
    save_file(trained.state_dict(), tmp_path / "weights.safetensors")
    model = build_model(SPEC, 5, pretrained=True, weights=tmp_path / "weights.safetensors")
    expected = timm.layers.resample_abs_pos_embed(trained.pos_embed, [4, 4], num_prefix_tokens=1)
    torch.testing.assert_close(model.pos_embed, expected)
    assert torch.equal(model.blocks[1].mlp.fc2.weight, trained.blocks[1].mlp.fc2.weight)
    assert "state_dict" not in model.pretrained_cfg  # a second copy of all weights


def test_parameter_names_of_older_layouts_are_converted(tmp_path):
    spec = ModelSpec("timm", 32, "deit3_small_patch16_224", {"depth": 1})
    trained = build_random_model(spec)
    old = {name.replace("ls1.gamma", "gamma_1"): t for name, t in trained.state_dict().items()}
    old = {name.replace("ls2.gamma", "gamma_2"): t + 1 for name, t in old.items()}
    torch.save({"model": old}, tmp_path / "deit3.pth")
    model = build_model(spec, 5, pretrained=True, weights=tmp_path / "deit3.pth")
    assert torch.equal(model.blocks[0].ls1.gamma, trained.blocks[0].ls1.gamma + 1)


OTHER_ARCHITECTURES = {
    "depth": (timm_spec(depth=3), "a depth of 3, not 2; unexpected: 'blocks.2.attn.proj.bias', "),
    "less depth": (timm_spec(depth=1), "a depth of 1, not 2; missing: 'blocks.1.norm1.weight', "),
    "width": (timm_spec(embed_dim=96), r"a width of 96, not 48; 'cls_token' has .*\(1, 1, 96\)"),
    "patch": (timm_spec(patch_size=4), r"a patch size of 4 px, not 8; .* \(48, 3, 4, 4\)"),
    "registers": (timm_spec(reg_tokens=4), "'pos_embed' has shape .*unexpected: 'reg_token'"),
    "no class token": (timm_spec(class_token=False, global_pool="avg"), ".*missing: 'cls_token'"),
    "convolutional": (ModelSpec("convnet", 16), "no tensor name belongs to this model; "),
}


@pytest.mark.parametrize("other", OTHER_ARCHITECTURES)
def test_weights_of_other_architectures_are_rejected_with_reason(other, tmp_path):
    spec, message = OTHER_ARCHITECTURES[other]
    file = tmp_path / "weights.safetensors"
    save_file(build_random_model(spec).state_dict(), file)
    with pytest.raises(ModelError, match=f"not of this model: {message}") as error:
        build_model(SPEC, 5, pretrained=True, weights=file)
    assert str(file) in str(error.value) and "network" not in str(error.value)


def test_swin_model_rejects_vision_transformer_weights(tmp_path):
    save_file(build_random_model().state_dict(), tmp_path / "vit.safetensors")
    with pytest.raises(ModelError, match=r"are not of this model: .*missing: "):
        swin = ModelSpec("timm", 224, "swin_tiny_patch4_window7_224")
        build_model(swin, 5, weights=tmp_path / "vit.safetensors")


FOREIGN_FILES = {
    "pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
    "page": b"<!DOCTYPE html><html>404</html>",
    "empty": b"",
}


def make_file(path, kind: str) -> None:
    state = build_random_model().state_dict()
    if kind == "pickled model":
        torch.save(build_random_model(), path)
    elif kind == "cut off":
        save_file(state, path)
        path.write_bytes(path.read_bytes()[:-100])
    elif kind == "cut off torch":
        torch.save(state, path)
        path.write_bytes(path.read_bytes()[:-100])
    elif kind == "a list":
        torch.save([1, 2], path)
    else:
        path.write_bytes(FOREIGN_FILES[kind])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("pickled model", r"Python objects, which could run code .*state_dict\(\)"),
        ("cut off", "damaged or incomplete"),
        ("cut off torch", "damaged or is not from torch.save"),
        ("a list", "contains a list, not named tensors"),
        ("pointer", "Git LFS pointer.*git lfs pull"),
        ("page", "neither a safetensors file nor a file from torch.save"),
        ("empty", "is empty"),
    ],
)
def test_invalid_weights_files_are_rejected_with_the_reason(kind, message, tmp_path):
    make_file(tmp_path / "weights.bin", kind)
    with pytest.raises(ModelError, match=message):
        read_weights_file(tmp_path / "weights.bin")


def test_file_format_is_detected_from_the_content(tmp_path):
    state = build_random_model().state_dict()
    torch.save(state, tmp_path / "torch.safetensors")
    save_file(state, tmp_path / "safetensors.pth")
    for name in ("torch.safetensors", "safetensors.pth"):
        assert torch.equal(read_weights_file(tmp_path / name)["cls_token"], state["cls_token"])


def test_number_of_heads_is_compared_with_the_source_run(tmp_path):
    options = {**VIT.options, "num_heads": 3}
    origin = make_run(tmp_path / "three-heads", replace(VIT, options=options))
    check_same_heads(origin, replace(VIT, options=options))
    check_same_heads(None, VIT)
    with pytest.raises(RunError, match="three-heads' are of a model with 3 attention heads, not 2"):
        check_same_heads(origin, VIT)


def test_rejected_weights_create_no_run_and_valid_ones_an_origin(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = make_run(tmp_path / "runs" / "other", ModelSpec("convnet", 16))
    command = ["finetune-deit-tiny", "--smoke", "--image-size", "32", "--weights"]
    assert train.main([*command, str(other.path / "model.safetensors")]) == 2
    assert "no tensor name belongs to this model" in capsys.readouterr().err
    assert not (tmp_path / "runs" / "finetune-deit-tiny-smoke").exists()
    source = make_run(tmp_path / "runs" / "same", ModelSpec("timm", 32, "deit_tiny_patch16_224"))
    assert train.main([*command, str(source.path / "model.safetensors")]) == 0
    folder = tmp_path / "runs" / "finetune-deit-tiny-smoke"
    assert json.loads((folder / "config.json").read_text())["started_from"]["run"] == "same"
    before, after = (load_file(f / "model.safetensors") for f in (source.path, folder))
    key = "blocks.0.attn.qkv.weight"
    assert torch.allclose(before[key].float(), after[key].float(), atol=0.02)  # two short epochs


def test_header_length_that_begins_as_a_pickle_does_is_read(tmp_path):
    """Safetensors files begin with the length of their header; pickles begin with the byte 0x80."""
    for padding in range(512):
        file = tmp_path / "weights.safetensors"
        save_file({"w": torch.ones(2)}, file, metadata={"x": "x" * padding})
        if file.read_bytes()[:1] == b"\x80":
            break
    assert file.read_bytes()[:1] == b"\x80"
    assert torch.equal(read_weights_file(file)["w"], torch.ones(2))
