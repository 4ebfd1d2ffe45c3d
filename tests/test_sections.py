"""The sections of a tab: the open one draws, the others do no work."""

import gradio as gr
import pytest

from vitdemo.errors import VitdemoError
from vitdemo.page.components.maps import MapRowView
from vitdemo.page.kit import UncheckedDropdown, UncheckedSlider
from vitdemo.page.sections import LazySections

UNCHANGED = gr.skip()


@pytest.fixture
def sections():
    """Two sections, of which the second has two parts; each draws what it was given."""
    found = LazySections([gr.Textbox(), gr.Radio()], [gr.State()])
    kind, depth = gr.Radio(), gr.Slider()
    found.add("one", lambda *given: given, [kind], [gr.JSON()])
    found.add("two/a", lambda *given: (given, "more"), [depth], [gr.JSON(), gr.JSON()])
    found.add("two/b", lambda *given: given, [], [gr.JSON()])
    return found


def test_only_the_open_section_is_rendered_if_there_is_an_image(sections):
    def drawn(tab, part, picture="picture"):
        return sections.render_open(sections.section_list, [picture, tab, part, "kind", 0.5])

    assert drawn("one", "a") == [("picture", "kind"), UNCHANGED, UNCHANGED, UNCHANGED]
    assert drawn("two", "a") == [UNCHANGED, ("picture", 0.5), "more", UNCHANGED]
    assert drawn("two", "b") == [UNCHANGED, UNCHANGED, UNCHANGED, ("picture",)]
    assert drawn("three", "b") == drawn("one", "a", None) == [UNCHANGED] * 4


def test_error_is_shown_and_clears_outputs_except_choices():
    def draw(choice):
        raise VitdemoError("no <such> class")

    choice = gr.Radio()
    found = LazySections([gr.Textbox()])
    found.add("one", draw, [choice], [MapRowView(), gr.HTML(), choice])
    assert found.render_open(found.section_list, ["one", "this"]) == [
        "no <such> class",
        None,
        UNCHANGED,
    ]


@pytest.mark.parametrize("sent", ["3", [3], {"a": 1}, True, float("nan"), float("inf")])
def test_invalid_browser_values_become_none(sent):
    assert UncheckedSlider(1, 12, 1).preprocess(sent) is None
    assert isinstance(sent, str) or UncheckedDropdown([]).preprocess(sent) is None
