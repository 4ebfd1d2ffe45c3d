"""Changes of an image: shared by all models, and valid for any input from the page."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from tests.factories import make_run, noise
from vitdemo.context import AppContext
from vitdemo.data.perturb import PERTURBATIONS, apply_perturbation
from vitdemo.data.perturb import changes as perturb
from vitdemo.data.perturb.changes import CHEQUERBOARD, PRESETS, ImageChanges, RemovedPatches
from vitdemo.errors import DataError
from vitdemo.page.components.article import Notice
from vitdemo.page.explore.perturb import answers

CPU = torch.device("cpu")
IMAGE = noise(size=(32, 32))
NEUTRAL_VALUES = {"pieces": 1, "rotate": 0, "brightness": 1, "blur": 0, "noise": 0, "jpeg": 100}


def make_changes(**values) -> ImageChanges:
    return ImageChanges.from_inputs(**(NEUTRAL_VALUES | {"seed": 0, "removed": None} | values))


def test_canvas_fits_the_largest_model_input_and_any_piece_count(shown, monkeypatch):
    assert answers.make_canvas(shown, IMAGE) is IMAGE
    assert answers.make_canvas(AppContext([], None, CPU), noise(size=(33, 33))).size == (32, 32)
    large = SimpleNamespace(preprocessing=SimpleNamespace(size=90))
    monkeypatch.setattr(shown, "trained_runs", lambda: [large])
    sides = (1, 40, 64, 90, 200)
    sizes = [answers.make_canvas(shown, noise(size=(side, side))).size[0] for side in sides]
    assert sizes == [32, 48, 64, 96, 96]


def test_neutral_changes_leave_the_image_unchanged():
    assert np.array_equal(
        np.asarray(perturb.apply_changes(IMAGE, ImageChanges())), np.asarray(IMAGE)
    )
    assert ImageChanges().describe() == "none"
    assert make_changes(seed=4, removed=RemovedPatches((4, 4))).is_identity
    assert not make_changes(jpeg=99).is_identity


@pytest.mark.parametrize("name", perturb.SLIDER_NAMES)
def test_sliders_apply_their_perturbation(name):
    value = PERTURBATIONS[name].strengths[1]
    pixels = torch.from_numpy(np.asarray(IMAGE).copy()).permute(2, 0, 1)[None]
    expected = apply_perturbation(name, pixels, value, 7)[0].permute(1, 2, 0).numpy()
    changed = perturb.apply_changes(IMAGE, make_changes(**{name: value, "seed": 7}))
    assert np.array_equal(np.asarray(changed), expected)


def test_patches_are_removed_after_all_other_changes():
    changes = make_changes(pieces=4, rotate=90, removed=RemovedPatches((4, 4), (5,)))
    complete = np.asarray(perturb.apply_changes(IMAGE, make_changes(pieces=4, rotate=90)))
    masked = np.asarray(perturb.apply_changes(IMAGE, changes))
    differ = (complete != masked).any(-1)
    assert differ[8:16, 8:16].mean() > 0.95
    differ[8:16, 8:16] = False
    assert not differ.any()
    text = "4 × 4 pieces shuffled, rotation 90 degrees, 1 of 16 patches removed"
    assert changes.describe() == text


def test_presets_are_within_slider_ranges_and_accept_uniform_images(shown):
    canvas = answers.make_canvas(shown, Image.new("RGB", (1, 1), (7, 7, 7)))
    for preset in PRESETS.values():
        changes = preset.changes
        values = {name: getattr(changes, name) for name in NEUTRAL_VALUES}
        assert make_changes(**values, removed=changes.removed) == changes != ImageChanges()
        assert (
            answers.predict_changes(shown, canvas, perturb.apply_changes(canvas, changes))[1] == []
        )
    assert len(CHEQUERBOARD.cells) == 32


def test_the_shuffle_preset_moves_8_x_8_pieces():
    assert PRESETS["Shuffled patches"].changes == ImageChanges(pieces=8)


def test_all_models_predict_before_and_after_the_change(shown):
    before, after = IMAGE, perturb.apply_changes(IMAGE, make_changes(noise=60))
    changes, problems = answers.predict_changes(shown, before, after)
    assert problems == []
    assert [shift.run.name for shift in changes] == [r.name for r in shown.trained_runs()]
    assert answers.patch_grid(shown, shown.find_run("vit")) == (4, 4)
    assert answers.patch_grid(shown, shown.find_run("resnet")) == (8, 8)
    for shift in changes:
        assert np.array_equal(shift.before, shown.predict(shift.run, before).probabilities)
        assert np.array_equal(shift.after, shown.predict(shift.run, after).probabilities)


def test_unloadable_model_is_reported_and_the_others_predict(tmp_path):
    make_run(tmp_path / "good")
    (make_run(tmp_path / "bad").path / "model.safetensors").write_bytes(b"no weights")
    changes, problems = answers.predict_changes(
        AppContext([tmp_path], None, CPU), noise(0, (32, 32)), noise(1, (32, 32))
    )
    assert [shift.run.name for shift in changes] == ["good"]
    assert len(problems) == 1 and "'bad'" in problems[0]


def test_empty_fields_are_neutral_and_invalid_values_are_clamped():
    for empty in (None, math.nan):
        nothing = dict.fromkeys((*perturb.SLIDER_NAMES, "seed"), empty)
        assert make_changes(**nothing, pieces=None) == ImageChanges()
    changes = make_changes(noise=1e9, jpeg=-4, rotate=-math.inf, pieces=3, seed=-5)
    assert (changes.noise, changes.jpeg, changes.rotate) == (100, 1, -180)
    assert (changes.pieces, changes.seed) == (1, 0)
    assert make_changes(seed=math.inf).seed == perturb.MAX_SEED
    perturb.apply_changes(IMAGE, changes)


def test_patches_are_removed_once_and_restored_on_another_grid():
    assert RemovedPatches((4, 4), (3, 9)).add([9, 1]).cells == (3, 9, 1)
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
    codes = ["", None, "8.8", "8.8.g", "0.8.1", "8.65.1", "2.2.10", "8.8.-1", "٨.8.1", "8.8.1\n"]
    for code in (*codes, "f" * 3000):
        assert RemovedPatches.decode(code) == RemovedPatches()


def test_patch_outside_the_grid_is_named_in_the_error():
    with pytest.raises(DataError, match="no patch 16"):
        perturb.apply_changes(IMAGE, ImageChanges(removed=RemovedPatches((4, 4), (16,))))


@pytest.mark.parametrize("ranking", answers.RANKING_MAPS)
def test_most_attended_patches_have_the_largest_map_values(shown, ranking):
    trace = shown.trace_image(shown.find_run("vit"), IMAGE)
    values = answers.compute_ranking_map(trace, 2, ranking).flatten()
    order = np.argsort(-values, kind="stable")
    chosen = answers.rank_patches(trace, 2, RemovedPatches((4, 4)), 3, ranking)
    assert chosen == order[:3].tolist()
    rest = answers.rank_patches(trace, 2, RemovedPatches((4, 4), tuple(chosen)), 99, ranking)
    assert rest == order[3:].tolist()


def test_patch_ranking_averages_or_repeats_the_map_on_other_grids(shown):
    trace = shown.trace_image(shown.find_run("vit"), IMAGE)
    values = answers.compute_ranking_map(trace, 1, "mean")  # (4, 4)
    coarse = values.reshape(2, 2, 2, 2).mean((1, 3))
    assert answers.rank_patches(trace, 1, RemovedPatches((2, 2)), 1, "mean") == [
        int(coarse.argmax())
    ]
    four = answers.rank_patches(trace, 1, RemovedPatches((8, 8)), 4, "mean")
    assert {(cell // 8 // 2, cell % 8 // 2) for cell in four} == {divmod(int(values.argmax()), 4)}
    with pytest.raises(DataError, match="'gradient': choose one of rollout, mean"):
        answers.rank_patches(trace, 1, RemovedPatches((4, 4)), 1, "gradient")


def test_random_removal_keeps_the_count_and_changes_the_patches():
    removed = RemovedPatches((4, 4), tuple(range(6)))
    samples = [answers.sample_patches(removed, 2, seed) for seed in range(3)]
    assert {(each.grid, len({*each.cells})) for each in samples} == {((4, 4), 6)}
    assert len({*samples, removed}) == 4
    assert len(answers.sample_patches(RemovedPatches((4, 4)), 2, 0).cells) == 2
    first = [answers.sample_patches(RemovedPatches(), 4, seed) for seed in range(3)]
    assert first[0] == answers.sample_patches(RemovedPatches(), 4, 0)
    assert first[0] != first[1]


def make_prediction_change(run, before, after):
    rows = np.zeros((2, 10))
    for row, values in zip(rows, (before, after), strict=True):
        row[list(values)] = list(values.values())
    return answers.PredictionChange(run, *rows)


def test_card_lists_the_top_classes_before_and_after(shown):
    run = shown.find_run("vit")
    card = answers.change_card(
        make_prediction_change(run, {3: 0.6, 5: 0.3, 1: 0.1}, {5: 0.5, 8: 0.4, 3: 0.1}), "still "
    )
    assert card.title == "vit: cat → **dog**"
    assert card.rows == [
        ("cat", 0.6, 0.1),
        ("dog", 0.3, 0.5),
        ("automobile", 0.1, 0.0),
        ("ship", 0.0, 0.4),
    ]


def test_models_that_keep_their_prediction_are_counted(shown):
    run = shown.find_run("vit")
    same = make_prediction_change(run, {3: 0.8, 5: 0.2}, {3: 0.7, 5: 0.3})
    other = make_prediction_change(run, {3: 0.8, 5: 0.2}, {3: 0.3, 5: 0.7})
    blocks = answers.change_blocks([same, other], ["'bad'"], ImageChanges(blur=1), 224)
    summary, note, *cards, problem = blocks
    assert "1 of 2 models keep their prediction." in summary.text and summary.told
    assert [each.title for each in cards] == ["vit: still cat", "vit: cat → **dog**"]
    assert problem == Notice("'bad'")
    assert "image at this size, 224 × 224 pixels" in note.text
    summary, *_ = answers.change_blocks([other], [], ImageChanges(blur=1), 32)
    assert "0 of 1 model keeps its prediction." in summary.text
    summary, _, unchanged = answers.change_blocks([same], [], ImageChanges(), 32)
    assert "The image is unchanged" in summary.text and unchanged.title == "vit: cat"
