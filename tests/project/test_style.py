"""Style sheets use a few sizes of text."""

import re

import pytest

from vitdemo.page.theme import CSS

# Notes, text in views, text of controls, and headings. Smaller sizes are labels in figures.
TEXT_SIZES = {12, 13, 14, 16}
LARGEST_LABEL = 11
# The button that removes an image, the accuracy of own classes, and the text of a lesson.
LARGE_SIZES = {"custom_classes/view.css": {24, 30}, "panel/view.css": {15, 18}}


@pytest.mark.parametrize("sheet", CSS, ids=lambda sheet: "/".join(sheet.parts[-2:]))
def test_text_has_a_size_of_the_scale(sheet):
    sizes = {
        float(text) for text in re.findall(r"font-size: ?([\d.]+)px", sheet.read_text("utf-8"))
    }
    allowed = TEXT_SIZES | LARGE_SIZES.get("/".join(sheet.parts[-2:]), set())
    assert {size for size in sizes if size > LARGEST_LABEL} <= allowed
