"""Changes of an image, shared by all models, and rankings of its patches."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from tests.support.factories import make_context, make_run, noise
from vitdemo.analyses import perturbation
from vitdemo.data.perturb import PERTURBATIONS, apply_perturbation
from vitdemo.data.perturb import changes as perturb
from vitdemo.data.perturb.changes import CENTRE, CHEQUERBOARD, PRESETS, ImageChanges, RemovedPatches
from vitdemo.errors import DataError

IMAGE = noise(size=(32, 32))


def test_canvas_fits_the_largest_model_input_and_any_piece_count(shown, monkeypatch):
    assert perturbation.make_canvas(shown, IMAGE) is IMAGE
    assert perturbation.make_canvas(make_context(), noise(size=(33, 33))).size == (32, 32)
    large = SimpleNamespace(preprocessing=SimpleNamespace(size=90))
    monkeypatch.setattr(shown, "trained_runs", lambda: [large])
    sides = (1, 40, 64, 90, 200)
    sizes = [perturbation.make_canvas(shown, noise(size=(side, side))).size[0] for side in sides]
    assert sizes == [32, 48, 64, 96, 96]


def test_neutral_changes_leave_the_image_unchanged():
    assert np.array_equal(
        np.asarray(perturb.apply_changes(IMAGE, ImageChanges())), np.asarray(IMAGE)
    )
    assert ImageChanges(seed=4, removed=RemovedPatches((4, 4))).is_identity
    assert not ImageChanges(jpeg=99).is_identity


@pytest.mark.parametrize("name", perturb.SLIDER_NAMES)
def test_sliders_apply_their_perturbation(name):
    value = PERTURBATIONS[name].strengths[1]
    pixels = torch.from_numpy(np.asarray(IMAGE).copy()).permute(2, 0, 1)[None]
    expected = apply_perturbation(name, pixels, value, 7)[0].permute(1, 2, 0).numpy()
    changed = perturb.apply_changes(IMAGE, ImageChanges(**{name: value, "seed": 7}))
    assert np.array_equal(np.asarray(changed), expected)


def test_patches_are_removed_after_all_other_changes():
    changes = ImageChanges(pieces=4, rotate=90, removed=RemovedPatches((4, 4), (5,)))
    complete = np.asarray(perturb.apply_changes(IMAGE, ImageChanges(pieces=4, rotate=90)))
    masked = np.asarray(perturb.apply_changes(IMAGE, changes))
    differ = (complete != masked).any(-1)
    assert differ[8:16, 8:16].mean() > 0.95
    differ[8:16, 8:16] = False
    assert not differ.any()


def test_presets_accept_uniform_images(shown):
    canvas = perturbation.make_canvas(shown, Image.new("RGB", (1, 1), (7, 7, 7)))
    for preset in PRESETS.values():
        changed = perturb.apply_changes(canvas, preset.changes)
        assert not preset.changes.is_identity
        assert perturbation.predict_changes(shown, canvas, changed)[1] == []
    assert (len(CHEQUERBOARD.cells), len(CENTRE.cells)) == (32, 16)


def test_all_models_predict_before_and_after_the_change(shown):
    before, after = IMAGE, perturb.apply_changes(IMAGE, ImageChanges(noise=60))
    changes, problems = perturbation.predict_changes(shown, before, after)
    assert problems == []
    assert [shift.run.name for shift in changes] == [r.name for r in shown.trained_runs()]
    assert perturbation.patch_grid(shown, shown.find_run("vit")) == (4, 4)
    assert perturbation.patch_grid(shown, shown.find_run("resnet")) == (8, 8)
    for shift in changes:
        assert np.array_equal(shift.before, shown.predict(shift.run, before).probabilities)
        assert np.array_equal(shift.after, shown.predict(shift.run, after).probabilities)


def test_unloadable_model_is_reported_and_the_others_predict(tmp_path):
    make_run(tmp_path / "good")
    (make_run(tmp_path / "bad").path / "model.safetensors").write_bytes(b"no weights")
    changes, problems = perturbation.predict_changes(make_context(tmp_path), IMAGE, IMAGE)
    assert [shift.run.name for shift in changes] == ["good"]
    assert len(problems) == 1 and "'bad'" in problems[0]


def test_patches_of_another_grid_are_restored():
    removed = RemovedPatches((4, 4), (3,))
    assert removed.on_grid((4, 4)) == removed
    assert removed.on_grid((8, 8)) == RemovedPatches((8, 8))


def test_removed_patches_are_encoded_and_decoded():
    for removed in (
        RemovedPatches((8, 8), (0, 9, 63)),
        RemovedPatches((14, 3), (41,)),
        CHEQUERBOARD,
    ):
        code = removed.encode
        assert set(code) <= set("0123456789abcdef.")
        assert RemovedPatches.decode(code) == removed
    assert RemovedPatches((4, 4)).encode == ""
    assert RemovedPatches((2, 2), (3, 1)).encode == "2.2.a"


def test_invalid_codes_remove_no_patches():
    codes = ["", None, 7, "8.8", "8.8.g", "0.8.1", "8.65.1", "2.2.10", "8.8.-1", "٨.8.1", "8.8.1\n"]
    for code in (*codes, "f" * 3000):
        assert RemovedPatches.decode(code) == RemovedPatches()


def test_patch_outside_the_grid_is_named_in_the_error():
    with pytest.raises(DataError, match="no patch 16"):
        perturb.apply_changes(IMAGE, ImageChanges(removed=RemovedPatches((4, 4), (16,))))


def test_patches_are_ranked_by_the_maps_of_every_layer(shown):
    trace = shown.trace_image(shown.find_run("vit"), IMAGE)
    maps = perturbation.compute_ranking_maps(trace)
    for layer in (1, 2, 3):
        rollout = trace.rollout_map(layer, fusion="mean", discard_ratio=0.0)
        np.testing.assert_allclose(maps["rollout"][layer - 1], rollout, atol=1e-6)
        assert np.array_equal(maps["mean"][layer - 1], trace.head_maps(layer).mean(0))
    order = perturbation.rank_patches(maps["mean"], (4, 4))
    assert np.array_equal(order, np.argsort(-maps["mean"].reshape(3, 16), axis=1, kind="stable"))


def test_patch_ranking_averages_or_repeats_the_map_on_other_grids(shown):
    trace = shown.trace_image(shown.find_run("vit"), IMAGE)
    maps = perturbation.compute_ranking_maps(trace)["mean"]  # (3, 4, 4)
    coarse = maps.reshape(3, 2, 2, 2, 2).mean((2, 4)).reshape(3, 4)
    assert np.array_equal(perturbation.rank_patches(maps, (2, 2))[:, 0], coarse.argmax(1))
    four = perturbation.rank_patches(maps, (8, 8))[0, :4]
    assert {(cell // 8 // 2, cell % 8 // 2) for cell in four} == {divmod(maps[0].argmax(), 4)}
