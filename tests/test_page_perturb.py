"""The HTML of the section "Hands on": a button a patch, signs before numbers, nothing unescaped."""

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.making import make_run
from vitdemo.page.look.perturb import answers as drawing
from vitdemo.page.look.perturb.answers import Shift
from vitdemo.perturb.changes import Changes


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "vit")


def shift(run, before, after):
    rows = np.zeros((2, 10))
    for row, values in zip(rows, (before, after), strict=True):
        row[list(values)] = list(values.values())
    return Shift(run, *rows)


def test_points_are_signed_and_small_ones_are_none(run):
    found = drawing.shifts_html(
        [shift(run, {3: 0.8, 5: 0.2}, {3: 0.3, 5: 0.6998, 0: 0.0002})], [], Changes(noise=3)
    )
    assert re.findall(r'vd-points[^"]*">([^<]+)<', found) == ["−50.0", "+50.0", "±0.0"]
    assert "cat → <strong>dog</strong>" in found
    assert "0 of 1 model keeps its answer." in found


def test_a_model_that_keeps_its_answer_says_still(run):
    same = shift(run, {3: 0.8, 5: 0.2}, {3: 0.7, 5: 0.3})
    assert "vit: still cat" in drawing.shifts_html([same, same], [], Changes(blur=1))
    assert "2 of 2 models keep their answer." in drawing.shifts_html(
        [same] * 2, [], Changes(blur=1)
    )
    untouched = drawing.shifts_html([same], [], Changes())
    assert "vit: cat" in untouched
    assert "The picture is untouched" in untouched


def test_names_from_folders_are_escaped(run):
    odd = replace(run, name="<i>run", classes=("<b>ant", *run.classes[1:]))
    found = drawing.shifts_html([shift(odd, {0: 1.0}, {0: 1.0})], ["'<u>bad'"], Changes(blur=1))
    assert "<b>ant" not in found and "&lt;b&gt;ant" in found
    assert "<i>run" not in found and "&lt;i&gt;run" in found
    assert "<u>bad" not in found
