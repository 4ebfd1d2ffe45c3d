"""Masked pretraining: the encoder sees visible patches only, and its weights can be reused."""

from dataclasses import replace
from itertools import islice

import pytest
import torch

from tests.training.test_trainer import MASKED, PLAIN, SIZES, TINY, make_trainer
from vitdemo import runs
from vitdemo.errors import ModelError, RecipeError
from vitdemo.models import ModelSpec, build_model
from vitdemo.models.masked import (
    MaskedAutoencoder,
    normalise_patches,
    patchify,
    reconstruction_loss,
    sample_visible_patches,
)
from vitdemo.training.pretraining import ACCURACY_FIELDS

PATCH_SIDE, P, K = 8, 4, 2  # patch side in pixels, patches per image, visible patches


@pytest.fixture
def images():
    return torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def visible():
    return sample_visible_patches(3, P, 0.5, torch.Generator().manual_seed(0))


@pytest.fixture
def autoencoder():
    torch.manual_seed(0)
    return MaskedAutoencoder(build_model(TINY, 4)).eval()


# --- the masked autoencoder ----------------------------------------------------------------------


def test_patches_are_cut_row_by_row(images):
    patches = patchify(images, PATCH_SIDE)
    assert patches.shape == (3, P, 3 * PATCH_SIDE * PATCH_SIDE)
    assert patches[1, 1].equal(images[1, :, :PATCH_SIDE, PATCH_SIDE:].flatten())
    assert patches[2, 2].equal(images[2, :, PATCH_SIDE:, :PATCH_SIDE].flatten())


@pytest.mark.parametrize(("mask_ratio", "count"), [(0.0, 15), (0.5, 8), (0.75, 4), (0.99, 1)])
def test_visible_patches_are_sampled_uniformly(mask_ratio, count):
    indices = sample_visible_patches(2000, 16, mask_ratio, torch.Generator().manual_seed(0))
    assert indices.shape == (2000, count)
    assert all(len(set(row)) == count for row in indices.tolist())
    frequencies = indices.flatten().bincount(minlength=16) / len(indices)
    assert frequencies.sub(count / 16).abs().max() < 0.05


def test_encoder_with_all_patches_equals_the_plain_model(autoencoder, images):
    all_patches = torch.arange(P).expand(3, P)
    tokens = autoencoder.encode(images, all_patches)
    torch.testing.assert_close(tokens, autoencoder.encoder.forward_features(images))


def test_order_of_visible_patches_has_no_effect(autoencoder, images, visible):
    torch.testing.assert_close(autoencoder(images, visible), autoencoder(images, visible.flip(1)))


def test_output_depends_on_visible_pixels_only(autoencoder, images):
    predicted = autoencoder(images, torch.tensor([[0, 3]] * 3))
    assert predicted.shape == (3, P, 3 * PATCH_SIDE * PATCH_SIDE)
    hidden, visible = images.clone(), images.clone()
    hidden[:, :, :PATCH_SIDE, PATCH_SIDE:] += 1  # patch 1
    visible[:, :, :PATCH_SIDE, :PATCH_SIDE] += torch.randn(PATCH_SIDE, PATCH_SIDE)  # patch 0
    assert autoencoder(hidden, torch.tensor([[0, 3]] * 3)).equal(predicted)
    assert (autoencoder(visible, torch.tensor([[0, 3]] * 3)) - predicted).abs().max() > 1e-3


def test_loss_covers_masked_patches_only(images):
    visible = torch.tensor([[0, 3]] * 3)
    target = normalise_patches(patchify(images, PATCH_SIDE))
    assert reconstruction_loss(target, images, visible, PATCH_SIDE).abs().max() < 1e-6
    output = target.clone()
    output[:, [0, 3]] += 5
    assert reconstruction_loss(output, images, visible, PATCH_SIDE).abs().max() < 1e-6
    output[:, 1] += torch.tensor([0.0, 1.0, 2.0])[:, None]
    expected = torch.tensor([0.0, 0.5, 2.0])  # mean of (d^2, 0) over the two masked patches
    torch.testing.assert_close(reconstruction_loss(output, images, visible, PATCH_SIDE), expected)


def test_zero_prediction_has_a_loss_of_about_one(images, visible):
    values = 3 * PATCH_SIDE * PATCH_SIDE
    loss = reconstruction_loss(torch.zeros(3, P, values), images, visible, PATCH_SIDE)
    torch.testing.assert_close(loss, torch.full((3,), (values - 1) / values), rtol=1e-4, atol=0)


def test_all_parameters_except_the_head_get_gradients(autoencoder, images, visible):
    reconstruction_loss(autoencoder(images, visible), images, visible, PATCH_SIDE).mean().backward()
    without_gradient = {n for n, p in autoencoder.named_parameters() if p.grad is None}
    assert without_gradient == {"encoder.head.weight", "encoder.head.bias"}


def test_timm_model_with_separate_patches_is_an_encoder(images, visible):
    timm = ModelSpec("timm", 16, "vit_tiny_patch16_224", SIZES)
    encoder = build_model(timm, 4)
    autoencoder = MaskedAutoencoder(encoder).eval()
    assert autoencoder(images, visible).shape == (3, P, 3 * PATCH_SIDE**2)
    everything = torch.arange(P).expand(3, P)
    tokens = autoencoder.encode(images, everything)
    torch.testing.assert_close(tokens, encoder.eval().forward_features(images))


@pytest.mark.parametrize("stem", ["conv", None])
def test_models_without_separate_patches_are_rejected(stem):
    conv_stem = replace(TINY, options=SIZES | {"patch_size": 4, "stem": stem})
    with pytest.raises(ModelError, match="the stem 'patch'"):
        MaskedAutoencoder(build_model(conv_stem if stem else ModelSpec("resnet18", 16), 4))


# --- its training --------------------------------------------------------------------------------


def test_pretraining_reduces_the_loss_and_writes_records():
    recipe = replace(PLAIN, mask_ratio=0.5, ema_decay=0.9, epochs=30, learning_rate=1e-2)
    recipe = replace(recipe, flip=False, crop_padding=0)
    records = list(make_trainer(recipe).fit())
    assert tuple(records[0]) == runs.RECORD_FIELDS
    assert {r["stage"] for r in records} == {"masked"}
    assert {r[name] for r in records for name in ACCURACY_FIELDS} == {None}
    assert records[-1]["train_loss"] < 0.9 * records[0]["train_loss"]
    assert records[-1]["val_loss"] < 0.9 * records[0]["val_loss"]


def test_masks_vary_by_epoch_but_not_in_validation():
    trainer, masks = make_trainer(MASKED), []
    for _ in islice(trainer.fit(), 2):
        masks.append(trainer.visible)
    assert masks[0].shape == masks[1].shape == (24, K)
    assert not masks[0].equal(masks[1])
    before = trainer._validate()
    trainer.epoch += 1
    assert trainer._validate() == before


def test_pretrained_encoder_is_loaded_with_a_new_head(tmp_path):
    trainer = make_trainer(MASKED)
    list(trainer.fit())
    runs.write_weights(tmp_path, trainer.final_weights())
    torch.manual_seed(5)
    fresh = build_model(TINY, 7)
    torch.manual_seed(5)
    model = build_model(TINY, 7, pretrained=True, weights=tmp_path / runs.WEIGHTS_FILE)
    encoder = trainer.ema_model().encoder.state_dict()
    for name, tensor in model.state_dict().items():
        if name.startswith("head."):
            assert tensor.equal(fresh.state_dict()[name])
        else:
            torch.testing.assert_close(tensor, encoder[name], rtol=1e-3, atol=1e-6)  # float16
    with_head = build_model(TINY, 4, weights=tmp_path / runs.WEIGHTS_FILE, keep_head=True)
    torch.testing.assert_close(with_head.head.weight, encoder["head.weight"], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    ("spec", "weights", "message"),
    [
        (TINY, None, "pass its model.safetensors as --weights"),
        (TINY, "none.safetensors", "'none.safetensors' does not exist"),
        (ModelSpec("timm", name="test_vit"), "none.safetensors", "'none.safetensors' does not"),
        (TINY, "/", "is a folder, not a weights file"),
        (ModelSpec("resnet18"), "any.safetensors", "remove --weights"),
    ],
)
def test_missing_or_unusable_weights_raise_model_errors(spec, weights, message):
    with pytest.raises(ModelError, match=message):
        build_model(spec, 4, pretrained=True, weights=weights)


INCOMPATIBLE_FIELDS = {"mixup": 0.5, "cutmix": 0.5, "patch_dropout": 0.5, "head_epochs": 2}
INCOMPATIBLE_FIELDS |= {"teacher": "runs/x", "pretrained": True, "layer_decay": 0.9}


@pytest.mark.parametrize(("field", "value"), INCOMPATIBLE_FIELDS.items())
def test_pretraining_rejects_supervised_recipe_fields(field, value):
    with pytest.raises(RecipeError, match=rf"self-supervised.*combined with: {field} {value}\."):
        replace(MASKED, **{field: value})
