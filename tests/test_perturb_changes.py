"""Changes of an image: one for all models, and no input from a page breaks them."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from tests.making import make_run, noise
from vitdemo.errors import DataError
from vitdemo.page.components.article import Notice
from vitdemo.page.look.perturb import answers
from vitdemo.perturb import PERTURBATIONS, apply
from vitdemo.perturb import changes as perturb
from vitdemo.perturb.changes import CHEQUERED, PRESETS, Changes, Removed
from vitdemo.workbench import Workbench

CPU = torch.device("cpu")
IMAGE = noise(size=(32, 32))
NOTHING = {"pieces": 1, "rotate": 0, "brightness": 1, "blur": 0, "noise": 0, "jpeg": 100}


def wished(**values) -> Changes:
    return Changes.wished(**(NOTHING | {"seed": 0, "removed": None} | values))


def test_a_canvas_fits_the_largest_input_and_every_number_of_pieces(shown, monkeypatch):
    assert answers.canvas(shown, IMAGE) is IMAGE
    assert answers.canvas(Workbench([], None, CPU), noise(size=(33, 33))).size == (32, 32)
    large = SimpleNamespace(preprocessing=SimpleNamespace(size=90))
    monkeypatch.setattr(shown, "trained_runs", lambda: [large])
    sides = (1, 40, 64, 90, 200)
    sizes = [answers.canvas(shown, noise(size=(side, side))).size[0] for side in sides]
    assert sizes == [32, 48, 64, 96, 96]


def test_no_change_leaves_every_pixel():
    assert np.array_equal(np.asarray(perturb.change(IMAGE, Changes())), np.asarray(IMAGE))
    assert Changes().words() == "none"
    assert wished(seed=4, removed=Removed((4, 4))).untouched
    assert not wished(jpeg=99).untouched


@pytest.mark.parametrize("name", perturb.SLIDERS)
def test_a_slider_does_what_its_change_does(name):
    value = PERTURBATIONS[name].strengths[1]
    pixels = torch.from_numpy(np.asarray(IMAGE).copy()).permute(2, 0, 1)[None]
    wanted = apply(name, pixels, value, 7)[0].permute(1, 2, 0).numpy()
    changed = perturb.change(IMAGE, wished(**{name: value, "seed": 7}))
    assert np.array_equal(np.asarray(changed), wanted)


def test_patches_are_removed_after_all_other_changes():
    changes = wished(pieces=4, rotate=90, removed=Removed((4, 4), (5,)))
    whole = np.asarray(perturb.change(IMAGE, wished(pieces=4, rotate=90)))
    holed = np.asarray(perturb.change(IMAGE, changes))
    differ = (whole != holed).any(-1)
    assert differ[8:16, 8:16].mean() > 0.95
    differ[8:16, 8:16] = False
    assert not differ.any()
    words = "4 × 4 pieces shuffled, rotation 90 degrees, 1 of 16 patches removed"
    assert changes.words() == words


def test_presets_are_within_the_sliders_and_a_picture_of_one_colour_survives_them(shown):
    canvas = answers.canvas(shown, Image.new("RGB", (1, 1), (7, 7, 7)))
    for preset in PRESETS.values():
        changes = preset.changes
        values = {name: getattr(changes, name) for name in NOTHING}
        assert wished(**values, removed=changes.removed) == changes != Changes()
        assert answers.shifts_of(shown, canvas, perturb.change(canvas, changes))[1] == []
    assert len(CHEQUERED.cells) == 32


def test_the_shuffle_preset_moves_8_x_8_pieces():
    assert PRESETS["Shuffled patches"].changes == Changes(pieces=8)


def test_every_model_answers_before_and_after(shown):
    before, after = IMAGE, perturb.change(IMAGE, wished(noise=60))
    found, problems = answers.shifts_of(shown, before, after)
    assert problems == []
    assert [shift.run.name for shift in found] == [r.name for r in shown.trained_runs()]
    assert answers.grid_of(shown, shown.run("vit")) == (4, 4)
    assert answers.grid_of(shown, shown.run("resnet")) == (8, 8)
    for shift in found:
        assert np.array_equal(shift.before, shown.answer(shift.run, before).probabilities)
        assert np.array_equal(shift.after, shown.answer(shift.run, after).probabilities)


def test_a_model_that_cannot_be_loaded_is_named_and_the_others_shift(tmp_path):
    make_run(tmp_path / "good")
    (make_run(tmp_path / "bad").path / "model.safetensors").write_bytes(b"no weights")
    found, problems = answers.shifts_of(
        Workbench([tmp_path], None, CPU), noise(0, (32, 32)), noise(1, (32, 32))
    )
    assert [shift.run.name for shift in found] == ["good"]
    assert len(problems) == 1 and "'bad'" in problems[0]


def test_an_empty_field_changes_nothing_and_one_out_of_range_becomes_the_nearest():
    for empty in (None, math.nan):
        nothing = dict.fromkeys((*perturb.SLIDERS, "seed"), empty)
        assert wished(**nothing, pieces=None) == Changes()
    changes = wished(noise=1e9, jpeg=-4, rotate=-math.inf, pieces=3, seed=-5)
    assert (changes.noise, changes.jpeg, changes.rotate) == (100, 1, -180)
    assert (changes.pieces, changes.seed) == (1, 0)
    assert wished(seed=math.inf).seed == perturb.LAST_SEED
    perturb.change(IMAGE, changes)


def test_patches_go_once_and_all_come_back_on_another_grid():
    assert Removed((4, 4), (3, 9)).plus([9, 1]).cells == (3, 9, 1)
    gone = Removed((4, 4), (3,))
    assert gone.on((4, 4)) == gone
    assert gone.on((8, 8)) == Removed((8, 8))


def test_removed_patches_go_through_an_address():
    for removed in (Removed((8, 8), (0, 9, 63)), Removed((14, 3), (41,)), CHEQUERED):
        code = removed.code
        assert set(code) <= set("0123456789abcdef.")
        assert Removed.decoded(code) == removed
    assert Removed((4, 4)).code == ""
    assert Removed((2, 2), (3, 1)).code == "2.2.a"


def test_what_is_no_code_removes_nothing():
    odd = ["", None, "8.8", "8.8.g", "0.8.1", "8.65.1", "2.2.10", "8.8.-1", "٨.8.1", "8.8.1\n"]
    for code in (*odd, "f" * 3000):
        assert Removed.decoded(code) == Removed()


def test_a_cell_that_is_not_on_its_grid_is_named():
    with pytest.raises(DataError, match="no patch 16"):
        perturb.change(IMAGE, Changes(removed=Removed((4, 4), (16,))))


@pytest.mark.parametrize("by", answers.MAPS)
def test_the_most_attended_are_the_largest_of_the_map(shown, by):
    look = shown.look(shown.run("vit"), IMAGE)
    values = answers.attended(look, 2, by).flatten()
    order = np.argsort(-values, kind="stable")
    chosen = answers.most_attended(look, 2, Removed((4, 4)), 3, by)
    assert chosen == order[:3].tolist()
    rest = answers.most_attended(look, 2, Removed((4, 4), tuple(chosen)), 99, by)
    assert rest == order[3:].tolist()


def test_a_coarser_grid_takes_the_mean_of_what_it_covers_and_a_finer_one_what_it_lies_in(shown):
    look = shown.look(shown.run("vit"), IMAGE)
    values = answers.attended(look, 1, "mean")  # (4, 4)
    coarse = values.reshape(2, 2, 2, 2).mean((1, 3))
    assert answers.most_attended(look, 1, Removed((2, 2)), 1, "mean") == [int(coarse.argmax())]
    four = answers.most_attended(look, 1, Removed((8, 8)), 4, "mean")
    assert {(cell // 8 // 2, cell % 8 // 2) for cell in four} == {divmod(int(values.argmax()), 4)}
    with pytest.raises(DataError, match="'gradient': choose one of rollout, mean"):
        answers.most_attended(look, 1, Removed((4, 4)), 1, "gradient")


def test_at_random_takes_as_many_as_are_away_and_others():
    gone = Removed((4, 4), tuple(range(6)))
    drawn = [answers.at_random(gone, 2, seed) for seed in range(3)]
    assert {(each.grid, len({*each.cells})) for each in drawn} == {((4, 4), 6)}
    assert len({*drawn, gone}) == 4
    assert len(answers.at_random(Removed((4, 4)), 2, 0).cells) == 2
    first = [answers.at_random(Removed(), 4, seed) for seed in range(3)]
    assert first[0] == answers.at_random(Removed(), 4, 0)
    assert first[0] != first[1]


def shift(run, before, after):
    rows = np.zeros((2, 10))
    for row, values in zip(rows, (before, after), strict=True):
        row[list(values)] = list(values.values())
    return answers.Shift(run, *rows)


def test_a_card_has_the_classes_that_lead_before_or_now(shown):
    run = shown.run("vit")
    moved = answers.card(shift(run, {3: 0.6, 5: 0.3, 1: 0.1}, {5: 0.5, 8: 0.4, 3: 0.1}), "still ")
    assert moved.title == "vit: cat → **dog**"
    assert moved.rows == [
        ("cat", 0.6, 0.1),
        ("dog", 0.3, 0.5),
        ("automobile", 0.1, 0.0),
        ("ship", 0.0, 0.4),
    ]


def test_how_many_models_keep_their_answer_is_counted(shown):
    run = shown.run("vit")
    same = shift(run, {3: 0.8, 5: 0.2}, {3: 0.7, 5: 0.3})
    other = shift(run, {3: 0.8, 5: 0.2}, {3: 0.3, 5: 0.7})
    found = answers.shift_pieces([same, other], ["'bad'"], Changes(blur=1), 224)
    words, of, *cards, problem = found
    assert "1 of 2 models keep their prediction." in words.text and words.told
    assert [each.title for each in cards] == ["vit: still cat", "vit: cat → **dog**"]
    assert problem == Notice("'bad'")
    assert "image at this size, 224 × 224 pixels" in of.text
    words, *_ = answers.shift_pieces([other], [], Changes(blur=1), 32)
    assert "0 of 1 model keeps its prediction." in words.text
    words, _, untouched = answers.shift_pieces([same], [], Changes(), 32)
    assert "The image is unchanged" in words.text and untouched.title == "vit: cat"
