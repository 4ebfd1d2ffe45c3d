"""The HTML of the section "Inside": names, colours, verdicts, and nothing that is not escaped."""

import math
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from vitdemo.data import CIFAR10_CLASSES as CIFAR10
from vitdemo.figures.inside import CLASS_COLOURS
from vitdemo.inside import Effects, Lens
from vitdemo.metrics.paired import McNemar
from vitdemo.page.look.inside import ablation, lens, pieces, positions

EVIL = ("<b>ant", "bee")


def run(classes):
    return SimpleNamespace(name="<i>run", classes=tuple(classes))


def shares(*shape, seed=0):
    values = np.random.default_rng(seed).random(shape)
    return values / values.sum(-1, keepdims=True)


def effects(classes=EVIL, L=2, H=3):
    random = np.random.default_rng(0)
    logits = np.array([2.0, 1.0, *[0.0] * (len(classes) - 2)])
    without = logits + random.normal(size=(L, H, len(classes)))
    return Effects(run(classes), logits, without)


def look_through(classes, L=2, P=4):
    C = len(classes)
    seen = np.zeros((8, 8, 3), np.uint8)
    return Lens(run(classes), seen, (2, P // 2), shares(L + 1, C), shares(L + 1, P, C, seed=1))


def test_short_names_are_as_short_as_they_can_differ():
    assert " ".join(lens.short_names(CIFAR10)) == "ai au bi ca de do fr ho sh tr"
    assert lens.short_names(["cart", "carp", "dog"]) == ["cart", "carp", "dog"]
    assert lens.short_names(["spider monkey", "spider web"]) == ["0", "1"]


def test_each_of_ten_classes_keeps_its_colour():
    assert lens.class_colours(shares(3, 4, 10)) == dict(enumerate(CLASS_COLOURS))


def test_of_many_classes_those_that_patches_say_get_the_colours():
    patches = np.zeros((1, 30, 1000))
    said = np.repeat([7, 300, *range(500, 515)], [9, 6, *[1] * 15])
    patches[0, np.arange(30), said] = 1
    colours = lens.class_colours(patches)
    assert len(colours) == 9 and CLASS_COLOURS[-1] not in colours.values()
    assert (colours[7], colours[300]) == CLASS_COLOURS[:2]


def test_of_many_classes_the_strip_shows_the_strongest_by_their_last_word():
    answers = np.zeros((3, 100))
    answers[0, 40], answers[1, 50], answers[2, 60], answers[2, 50] = 0.9, 0.8, 0.7, 0.1
    shown = lens.strongest(answers)
    assert len(shown) == 8 and shown[:2] == [60, 50] and 40 in shown
    assert lens.strongest(answers[:, :10]) == list(range(10))


def test_heads_are_read_from_an_address_and_nothing_else_is():
    found = effects()
    assert ablation.read("1.2 2.3", found) == {(0, 1), (1, 2)}
    assert ablation.written({(1, 2), (0, 1)}) == "1.2 2.3"
    assert ablation.read("3.1 1.4 0.1 1.0 -1.1 1.1.1 <b> . ² 1.²", found) == frozenset()
    assert ablation.read(None, found) == frozenset()


def test_names_from_files_are_escaped():
    found, seen = effects(), look_through(EVIL)
    shown = (
        lens.strip_html(seen, 1)
        + lens.patches_html(seen, 1)
        + ablation.wall_html(found, {(0, 0)})
        + ablation.compared_html(found, shares(2), {(0, 0)})
    )
    assert "&lt;b&gt;ant" in shown and "<b>ant" not in shown
    assert "&lt;i&gt;run" in shown and "<i>run" not in shown


def test_the_strip_has_a_number_for_every_class_and_layer():
    found = look_through(CIFAR10)
    text = lens.strip_html(found, 1)
    cells = re.findall(r">(\d+)</td>", text)
    assert [int(cell) for cell in cells] == (100 * found.answers.T).round().astype(
        int
    ).ravel().tolist()
    assert text.count('aria-pressed="true"') == 1


def test_the_wall_says_which_heads_are_off_and_what_each_does():
    found = effects()
    text = ablation.wall_html(found, {(1, 2)})
    labels = re.findall(r'aria-label="([^"]*)"', text)
    assert len(labels) == 6
    change = pieces.signed(found.logit_change[1, 2])
    assert labels[5].startswith("Layer 2, head 3, off. Without it alone")
    assert f"logit {change}" in labels[5]
    assert sum(", on." in label for label in labels) == 5


def test_a_head_that_spoke_for_the_class_is_orange_and_one_against_it_purple():
    found = effects()
    text = ablation.wall_html(found, set())
    colours = re.findall(r"background: #(..)..(..); color", text)  # (red, blue)
    changes = found.logit_change.ravel()
    for (red, blue), change in zip(colours, changes, strict=True):
        if abs(change) > 0.2 * np.abs(changes).max():
            assert (int(red, 16) > int(blue, 16)) == (change < 0)  # less without it: for


def test_many_heads_are_listed_up_to_six():
    heads = {(layer, 0) for layer in range(8)}
    assert ablation.listed(heads).endswith("layer 6 head 1 and 2 more")


def test_an_answer_that_turns_is_among_those_compared():
    found = effects(classes=CIFAR10)
    without = np.full(10, 0.01)
    without[9] = 0.91
    text = ablation.compared_html(found, without, {(0, 0), (1, 1)})
    assert "now predicts truck (91.0 %" in text
    assert text.count("truck</th>") == 2
    assert "Without layer 1 head 1, layer 2 head 2" in text


@pytest.mark.parametrize(
    ("won", "lost", "words"),
    [(20, 30, "no change can be told"), (20, 50, "a clear loss"), (50, 20, "a clear gain")],
)
def test_a_change_within_its_interval_is_not_called_one(won, lost, words):
    test = McNemar(800 - lost, won, lost, 1000, p=math.nan)
    text = ablation.change_html("<i>run", test, {(0, 0)})
    assert words in text and "80.0 %" in text and "without layer 1 head 1." in text
    assert "&lt;i&gt;run on 1,000" in text


@pytest.mark.parametrize(
    ("value", "text"), [(0.254, "+0.25"), (-0.254, "−0.25"), (0.001, "0.00"), (-0.0, "0.00")]
)
def test_signs_are_written_and_nothing_has_none(value, text):
    assert pieces.signed(value) == text


def test_positions_of_a_single_patch_and_a_choice_beyond_the_grid():
    assert positions.limit_of(np.ones((1, 1))) == 1.0
    assert positions.chosen((9, 9), (4, 6)) == (3, 5)
    assert positions.chosen(None, (6, 6)) == (2, 2)
    text = positions.map_html(np.ones((1, 1)), (1, 1), (0, 0), "random")
    assert text.count("data-pick") == 1


@pytest.mark.parametrize(
    ("pictures", "words"),
    [(None, "hands on zeros"), (0, "over the tokens of this picture"), (32, "over 32 test pic")],
)
def test_the_wall_says_what_a_head_that_is_off_hands_on(pictures, words):
    found = replace(effects(), pictures=pictures)
    assert words in ablation.wall_html(found, frozenset())


def test_positions_say_what_they_began_with():
    texts = {
        start: positions.map_html(np.ones((1, 1)), (1, 1), (0, 0), start)
        for start in ("random", "mimetic", "weights")
    }
    assert "were learnt" in texts["random"] and "sines and cosines" in texts["mimetic"]
    assert "weights of another one" in texts["weights"]
