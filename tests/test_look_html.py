"""The words, buttons and numbers around the maps of Look, without a browser."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from tests.making import KINDS, make_run
from vitdemo.explorer import Explorer, heads
from vitdemo.ui.look import rollout, stage, walls

STRANGE = "<b>bold</b> & Sons"


@pytest.fixture(scope="module")
def explorer(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    for name, spec in KINDS.items():
        make_run(root / name, spec)
    return Explorer([root], None, torch.device("cpu"))


def look_at(explorer, name: str, colour=None):
    pixels = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    image = Image.new("RGB", (1, 1), colour) if colour else Image.fromarray(pixels)
    return explorer.look(explorer.run(name), image)


@pytest.fixture(params=KINDS)
def look(request, explorer):
    return look_at(explorer, request.param)


def question(look, code="", source=heads.HEAD, incoming=False):
    return walls.Question(heads.token_of(look, code), source, 2, 1, incoming)


def all_html(look, asked) -> str:
    maps = heads.wall(look, asked.token, incoming=asked.incoming)
    steps = heads.steps(look, asked.token)
    return (
        walls.wall_html(look, maps, asked, walls.ENTROPY, True, None)
        + walls.asked_html(look, asked, None)
        + rollout.strip_html(look, steps, 2)
        + rollout.large_html(look, steps, 2, asked.token, rollout.ANSWER)
    )


def text(markup: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", markup).split())


@pytest.mark.parametrize("incoming", [False, True])
@pytest.mark.parametrize("source", heads.SOURCES)
@pytest.mark.parametrize("code", ["", "2,3", "mean"])
def test_every_map_says_what_it_is_and_what_it_cannot_say(look, source, code, incoming):
    asked = question(look, code, source, incoming)
    words = text(walls.asked_html(look, asked, None))
    assert asked.token.name in words
    assert ("Rollout" if source == heads.ROLLOUT else "Raw attention") in words
    assert "does not depend on the class" in words and "can mislead" in words
    assert ("need not add up" in words) == incoming


def test_shares_of_a_row_add_up_to_one_hundred(look):
    asked = question(look, "3,1")
    words = text(walls.asked_html(look, asked, None))
    patches = float(re.search(r"together are ([\d.]+) %", words)[1])
    prefix = [float(share) for share in re.findall(r"(?:token|register \d) ([\d.]+) %", words)]
    assert len(prefix) == look.num_prefix_tokens
    assert patches + sum(prefix) == pytest.approx(100, abs=0.5)


def test_nothing_of_a_runs_name_becomes_markup(explorer):
    look = look_at(explorer, "registers")
    strange = replace(look, run=replace(look.run, name=STRANGE))
    for code in ("", "1,1"):
        markup = all_html(strange, question(strange, code))
        assert "<b>bold" not in markup
        assert "&lt;b&gt;bold&lt;/b&gt; &amp; Sons" in markup


def test_there_is_a_button_for_every_head_patch_token_and_step(look):
    markup = all_html(look, question(look, "2,3"))
    picks = re.findall(r'data-pick="([^"]*)"', markup)
    together = 2 if look.run.name == "distilled" else 1  # both tokens that answer; all patches
    assert len(picks) == 2 * 3 + 4 * 4 + look.num_prefix_tokens + together + 2
    assert picks.count("2,3") == 2  # the head, and the patch
    assert len(re.findall('aria-pressed="true"', markup)) == 3  # that head, patch and step
    assert len(re.findall("aria-label=", markup)) >= 2 * 3 + 4 * 4 + 2


def test_a_model_without_a_class_token_says_so(explorer):
    for name, said in (("average pooled", True), ("class token", False)):
        look = look_at(explorer, name)
        token = rollout.row_token(look, rollout.ANSWER)
        steps = heads.steps(look, token)
        words = text(rollout.large_html(look, steps, 2, token, rollout.ANSWER))
        assert ("has no class token" in words) == said
        assert rollout.row_token(look, rollout.PATCHES) == heads.all_patches(look)
    look = look_at(explorer, "distilled")
    token = rollout.row_token(look, rollout.ANSWER)
    words = text(rollout.large_html(look, heads.steps(look, token), 2, token, rollout.ANSWER))
    assert "read from the mean of the class and the distillation token" in words


def test_the_check_tells_a_matrix_whose_rows_are_off(look):
    N = look.attention.shape[-1]
    assert rollout.check(4.8e-7, look).startswith(f"✓ All {N} rows")
    for wrong in (0.25, float("nan"), float("inf")):
        assert rollout.check(wrong, look).startswith("✗ Rows of this matrix do not sum to one")


@pytest.mark.parametrize(
    ("share", "words"), [(0, "0.0 %"), (0.1234, "12.3 %"), (1, "100.0 %"), (0.00041, "0.041 %")]
)
def test_a_share_in_percent(share, words):
    assert stage.percent(share) == words


def test_a_map_lies_over_the_picture_of_its_own_look(explorer):
    first, second = look_at(explorer, "distilled"), look_at(explorer, "distilled", "red")
    for look, other in ((first, second), (second, first)):
        variable = re.search(r"(--vd-seen-\w+)", stage.seen(look))[1]
        assert f"{variable}: url(" in stage.seen_style(look)
        assert variable not in stage.seen_style(other)


def test_a_picture_of_one_colour_has_its_maps(explorer):
    for name in KINDS:
        look = look_at(explorer, name, "white")
        assert "nan" not in text(all_html(look, question(look)))
