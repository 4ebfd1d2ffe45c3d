"""Payloads of the part "Similar patches": colours, similar patches, and old links."""

import numpy as np
import pytest
import torch

from tests.support.factories import (
    RESNET,
    TIMM_KINDS,
    make_context,
    make_run,
    write_noise_images,
)
from vitdemo import runs
from vitdemo.analyses.patch_similarity import build_patch_index, get_patch_tokens
from vitdemo.errors import DataError, RunError, Stopped
from vitdemo.explain.patch_components import colour_patches
from vitdemo.page.bridge import load_trace
from vitdemo.page.explore.inside import similar_patches
from vitdemo.page.explore.inside.similar_patches import load_photo_colours
from vitdemo.page.image_sources import ImageRequest
from vitdemo.page.view_state import ViewState

CAT = ImageRequest("photo:cat")


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    """AppContext of four kinds of ViT, a ResNet and a broken ViT, with 20 test images."""
    root = tmp_path_factory.mktemp("similar")
    run = make_run(root / "runs" / "vit")
    for name, spec in TIMM_KINDS.items():
        make_run(root / "runs" / name, spec)
    make_run(root / "runs" / "resnet", RESNET)
    weights = runs.load_model(make_run(root / "runs" / "broken")).state_dict()
    weights["blocks.0.norm1.weight"][:] = float("nan")
    runs.write_weights(root / "runs" / "broken", weights)
    counts = {f"{part}/{name}": 2 for part in ("train", "test") for name in run.classes}
    return make_context(root / "runs", data_root=write_noise_images(root / "data", counts))


def make_state(model="vit", image=CAT, patch="2,3", layer=2):
    return ViewState(image, model, {"similar_patches.patch": patch, "layer": layer})


def run_task(context, state):
    reports = []
    similar_patches.compute_index(context, state, lambda *report: reports.append(report))
    return reports


@pytest.mark.parametrize("name", ["vit", *TIMM_KINDS])
def test_colours_contain_all_layers_and_photos(context, name):
    state = make_state(name)
    found, trace = similar_patches.colours_payload(context, state), load_trace(context, state)
    axes, photos = load_photo_colours(context, context.find_run(name))
    colours = found["colours"].values
    L, n, P = colours.shape[:3]
    assert (L, n, P) == (trace.num_layers, 1 + len(found["photos"]), np.prod(trace.grid))
    assert found["photos"][:2] == ["cat", "bus"]
    own = colour_patches(axes, get_patch_tokens(trace))
    np.testing.assert_allclose(colours[:, 0], own, atol=1e-3)
    np.testing.assert_allclose(colours[:, 1:], photos, atol=1e-3)
    np.testing.assert_allclose(colours[:, 0], colours[:, 1], atol=1e-3)  # the image is a photo
    np.testing.assert_allclose(found["ratios"], axes.ratios.sum(1), atol=1e-3)
    S = trace.input_image.shape[0]
    assert found["sheet"].pixels.shape == (S, S * (n - 1), 3)
    np.testing.assert_array_equal(found["seen"].pixels, trace.input_image)


def test_patches_are_found_after_the_task(context):
    state = make_state("registers")
    before = similar_patches.patches_payload(context, state)
    assert before["found"] is None and before["patch"] == [2, 3] and before["images"] == 20
    assert before["is_quick"] and before["layer"] == 2
    reports = run_task(context, state)
    assert reports == [(0, 20, "Computing patch tokens of layer 2")]
    after = similar_patches.patches_payload(context, state)
    index = build_patch_index(context, context.find_run("registers"), 2)
    token = get_patch_tokens(load_trace(context, state))[1, 1 * 4 + 2]
    expected = index.find_similar(token)
    assert len(after["found"]) == 10
    for shown, (place, patch, cosine) in zip(after["found"], expected, strict=True):
        assert shown["number"] == index.sample.indices[place]
        assert shown["label"] == index.sample.source.classes[index.sample.labels[place]]
        assert shown["patch"] == [patch // 4 + 1, patch % 4 + 1]
        assert shown["cosine"] == pytest.approx(cosine, abs=1e-3)
    side = after["sheet"].pixels.shape[0]
    images = index.sample.source.load_subset(
        "test", torch.tensor([each["number"] for each in after["found"]]), side
    ).images
    np.testing.assert_array_equal(
        after["sheet"].pixels, np.concatenate([*images.permute(0, 2, 3, 1).numpy()], axis=1)
    )


def test_a_test_image_does_not_find_itself(context):
    run_task(context, make_state())
    own = similar_patches.patches_payload(context, make_state(image=ImageRequest("test:7")))
    assert len(own["found"]) == 10
    assert 7 not in [each["number"] for each in own["found"]]


def test_an_index_belongs_to_one_layer(context):
    run_task(context, make_state(layer=2))
    assert similar_patches.patches_payload(context, make_state(layer=2))["found"]
    assert similar_patches.patches_payload(context, make_state(layer=1))["found"] is None


@pytest.mark.parametrize("patch", ["", "0,1", "5,1", "1,5", "1", "x", "1,2,3", "²,1", 7, None])
def test_patches_that_do_not_exist_are_not_chosen(context, patch):
    run_task(context, make_state())
    found = similar_patches.patches_payload(context, make_state(patch=patch))
    assert found["patch"] is None and found["found"] is None


@pytest.mark.parametrize(("layer", "kept"), [(1, 1), (3, 3), (99, 3), (-4, None), (None, None)])
def test_layers_that_do_not_exist_are_replaced(context, layer, kept):
    found = similar_patches.patches_payload(context, make_state(layer=layer))
    assert found["layer"] == kept or (kept is None and 1 <= found["layer"] <= 3)


def test_a_cancelled_task_leaves_no_index(context):
    def cancel(*_):
        raise Stopped

    with pytest.raises(Stopped):
        similar_patches.compute_index(context, make_state(layer=3), cancel)
    assert similar_patches.patches_payload(context, make_state(layer=3))["found"] is None


def test_large_inputs_wait_for_the_user(context, monkeypatch):
    monkeypatch.setattr(similar_patches, "MAX_QUICK_SIDE", 8)
    assert not similar_patches.patches_payload(context, make_state())["is_quick"]


@pytest.mark.parametrize(
    ("model", "message"),
    [("resnet", "no attention"), ("broken", "predicts NaN"), ("none", "There is no run")],
)
def test_unsuitable_models_are_named_by_both_views(context, model, message):
    for payload in similar_patches.FEATURE.payloads.values():
        with pytest.raises(RunError, match=message):
            payload(context, make_state(model))


def test_colours_need_no_dataset(context):
    bare = make_context(*context.roots)
    assert similar_patches.colours_payload(bare, make_state())["layers"] == 3
    with pytest.raises(DataError):
        similar_patches.patches_payload(bare, make_state())
