"""The sections of a tab: the open one draws, the others do no work."""

import gradio as gr
import pytest

from vitdemo.errors import VitdemoError
from vitdemo.page.components.maps import Maps
from vitdemo.page.kit import FreeDropdown, LayerSlider
from vitdemo.page.sections import Sections

STAYS = gr.skip()


@pytest.fixture
def sections():
    """Two sections, of which the second has two parts; each draws what it was given."""
    found = Sections([gr.Textbox(), gr.Radio()], [gr.State()])
    kind, depth = gr.Radio(), gr.Slider()
    found.add("one", lambda *given: given, [kind], [gr.JSON()])
    found.add("two/a", lambda *given: (given, "more"), [depth], [gr.JSON(), gr.JSON()])
    found.add("two/b", lambda *given: given, [], [gr.JSON()])
    return found


def test_only_what_is_open_is_drawn_and_that_from_a_picture(sections):
    def drawn(tab, part, picture="picture"):
        return sections.drawn(sections.all, [picture, tab, part, "kind", 0.5])

    assert drawn("one", "a") == [("picture", "kind"), STAYS, STAYS, STAYS]
    assert drawn("two", "a") == [STAYS, ("picture", 0.5), "more", STAYS]
    assert drawn("two", "b") == [STAYS, STAYS, STAYS, ("picture",)]
    assert drawn("three", "b") == drawn("one", "a", None) == [STAYS] * 4


def test_an_error_is_told_and_what_was_drawn_goes_but_no_choice():
    def draw(choice):
        raise VitdemoError("no <such> class")

    choice = gr.Radio()
    found = Sections([gr.Textbox()])
    found.add("one", draw, [choice], [Maps(), gr.HTML(), choice])
    assert found.drawn(found.all, ["one", "this"]) == ["no <such> class", None, STAYS]


@pytest.mark.parametrize("sent", ["3", [3], {"a": 1}, True, float("nan"), float("inf")])
def test_what_is_no_number_or_no_name_is_none(sent):
    assert LayerSlider(1, 12, 1).preprocess(sent) is None
    assert isinstance(sent, str) or FreeDropdown([]).preprocess(sent) is None
