"""URL parameters: valid and invalid values."""

import gradio as gr
import pytest

from vitdemo.page import image_sources
from vitdemo.page.components.picture import ImageRequest
from vitdemo.page.explore import permalink
from vitdemo.page.kit import UncheckedDropdown, UncheckedSlider

RADIO = gr.Radio(["mean", "max"], value="mean")
SLIDER = gr.Slider(0, 0.95, 0, step=0.05)


LAYER = UncheckedSlider(1, 12, 12)
CHECKBOX = gr.Checkbox(False)


@pytest.mark.parametrize(
    ("component", "values"),
    [
        (RADIO, {"max": "max", "min": None, None: None}),
        (SLIDER, {"0.5": 0.5, "0": 0, "0.96": None, "nan": None, "1e999": None, "half": None}),
        (LAYER, {"20": 20, "0": None, "1e20": None, "nan": None, "1e999": None}),
        (CHECKBOX, {"true": True, "1": None}),
    ],
)
def test_only_valid_component_values_are_accepted(component, values):
    assert {text: permalink.parse_value(component, text) for text in values} == values


def test_unknown_class_name_is_accepted_and_truncated():
    dropdown = UncheckedDropdown([("any", "")], value="")
    update = permalink.parse_value(dropdown, "n" * 500)
    assert update["value"] == "n" * permalink.MAX_CLASS_NAME_LENGTH
    assert [value for _, value in update["choices"]] == ["", update["value"]]
    assert permalink.parse_value(dropdown, None) is None


@pytest.mark.parametrize(
    "text", ["test:", "test:-1", "17", None, "test:²", "photo:lion", "test:99999999999"]
)
def test_test_images_are_identified_only_by_number(text):
    assert image_sources.parse_test_index("test:17") == 17
    assert image_sources.parse_test_index(text) is None


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ("", ImageRequest("photo:cat")),
        ("?picture=test:17", ImageRequest("test:17")),
        ("?picture=photo:lion&crop=0.25", ImageRequest("photo:lion", None, 0.25)),
        ("?crop=nan", ImageRequest("photo:cat")),
        ("?crop=-3", ImageRequest("photo:cat", None, 0.0)),
        ("?picture=" + "x" * 999, ImageRequest("x" * permalink.MAX_CLASS_NAME_LENGTH)),
    ],
)
def test_query_selects_an_image_and_crop_or_the_first_photo(search, expected):
    assert permalink.image_from_query(search, ["photo:cat", "photo:lion"]) == expected
    assert permalink.image_from_query("", []) is None


def test_query_is_parsed_and_truncated():
    assert permalink.parse_query("?model=a%20b&layer=3&layer=4") == {"model": "a b", "layer": "4"}
    assert permalink.parse_query(None) == {}
    assert len(permalink.parse_query("?x=" + "y" * 10_000)["x"]) < permalink.MAX_QUERY_LENGTH
