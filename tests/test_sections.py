"""Sections of a tab: only the open section is rendered."""

import gradio as gr
import pytest

from vitdemo.errors import VitdemoError
from vitdemo.page.components.article import Document
from vitdemo.page.kit import UncheckedDropdown, UncheckedSlider
from vitdemo.page.sections import LazySections

UNCHANGED = gr.skip()


@pytest.fixture
def sections():
    """Two sections, the second with two parts; each returns its inputs."""
    lazy_sections = LazySections([gr.Textbox(), gr.Radio()], [gr.State()])
    kind, depth = gr.Radio(), gr.Slider()
    lazy_sections.add("one", lambda *inputs: inputs, [kind], [gr.JSON()])
    lazy_sections.add("two/a", lambda *inputs: (inputs, "more"), [depth], [gr.JSON(), gr.JSON()])
    lazy_sections.add("two/b", lambda *inputs: inputs, [], [gr.JSON()])
    return lazy_sections


def test_only_the_open_section_is_rendered_if_there_is_an_image(sections):
    def render(tab, part, image="picture"):
        return sections.render_open(sections.section_list, [image, tab, part, "kind", 0.5])

    assert render("one", "a") == [("picture", "kind"), UNCHANGED, UNCHANGED, UNCHANGED]
    assert render("two", "a") == [UNCHANGED, ("picture", 0.5), "more", UNCHANGED]
    assert render("two", "b") == [UNCHANGED, UNCHANGED, UNCHANGED, ("picture",)]
    assert render("three", "b") == render("one", "a", None) == [UNCHANGED] * 4


def test_error_is_shown_and_clears_outputs_except_choices():
    def fail(choice):
        raise VitdemoError("no <such> class")

    choice = gr.Radio()
    sections = LazySections([gr.Textbox()])
    sections.add("one", fail, [choice], [Document(), gr.HTML(), choice])
    assert sections.render_open(sections.section_list, ["one", "this"]) == [
        "no <such> class",
        None,
        UNCHANGED,
    ]


@pytest.mark.parametrize("sent", ["3", [3], {"a": 1}, True, float("nan"), float("inf")])
def test_invalid_browser_values_become_none(sent):
    assert UncheckedSlider(1, 12, 1).preprocess(sent) is None
    assert isinstance(sent, str) or UncheckedDropdown([]).preprocess(sent) is None
