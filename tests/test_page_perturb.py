"""What the section "Hands on" says of answers before and after a change."""

import numpy as np
import pytest

from tests.making import make_run
from vitdemo.page.components.article import Notice
from vitdemo.page.look.perturb.answers import Shift, card, shift_pieces
from vitdemo.perturb.changes import Changes


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "vit")


def shift(run, before, after):
    rows = np.zeros((2, 10))
    for row, values in zip(rows, (before, after), strict=True):
        row[list(values)] = list(values.values())
    return Shift(run, *rows)


def test_a_card_has_the_classes_that_lead_before_or_now(run):
    moved = card(shift(run, {3: 0.6, 5: 0.3, 1: 0.1}, {5: 0.5, 8: 0.4, 3: 0.1}), "still ")
    assert moved.title == "vit: cat → **dog**"
    assert moved.rows == [
        ("cat", 0.6, 0.1),
        ("dog", 0.3, 0.5),
        ("automobile", 0.1, 0.0),
        ("ship", 0.0, 0.4),
    ]


def test_how_many_models_keep_their_answer_is_counted(run):
    same = shift(run, {3: 0.8, 5: 0.2}, {3: 0.7, 5: 0.3})
    other = shift(run, {3: 0.8, 5: 0.2}, {3: 0.3, 5: 0.7})
    words, _, *cards, problem = shift_pieces([same, other], ["'bad'"], Changes(blur=1))
    assert "1 of 2 models keep their answer." in words.text and words.told
    assert [each.title for each in cards] == ["vit: still cat", "vit: cat → **dog**"]
    assert problem == Notice("'bad'")
    assert "0 of 1 model keeps its answer." in shift_pieces([other], [], Changes(blur=1))[0].text
    words, untouched = shift_pieces([same], [], Changes())
    assert "The picture is untouched" in words.text and untouched.title == "vit: cat"
