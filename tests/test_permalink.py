"""What an address may say, and what it may not."""

import gradio as gr
import pytest

from vitdemo.page.components.picture import Asked
from vitdemo.page.kit import FreeDropdown, LayerSlider
from vitdemo.page.look import permalink, picture

RADIO = gr.Radio(["mean", "max"], value="mean")
SLIDER = gr.Slider(0, 0.95, 0, step=0.05)


LAYER = LayerSlider(1, 12, 12)
BOX = gr.Checkbox(False)


@pytest.mark.parametrize(
    ("component", "values"),
    [
        (RADIO, {"max": "max", "min": None, None: None}),
        (SLIDER, {"0.5": 0.5, "0": 0, "0.96": None, "nan": None, "1e999": None, "half": None}),
        (LAYER, {"20": 20, "0": None, "1e20": None, "nan": None, "1e999": None}),  # 1e20: no JSON
        (BOX, {"true": True, "1": None}),
    ],
)
def test_only_what_the_component_can_have_is_taken(component, values):
    assert {text: permalink.checked(component, text) for text in values} == values


def test_a_class_is_taken_before_its_model_is_known_and_cut():
    dropdown = FreeDropdown([("any", "")], value="")
    update = permalink.checked(dropdown, "n" * 500)
    assert update["value"] == "n" * permalink.LONGEST_NAME
    assert [value for _, value in update["choices"]] == ["", update["value"]]
    assert permalink.checked(dropdown, None) is None


@pytest.mark.parametrize(
    "text", ["test:", "test:-1", "17", None, "test:²", "photo:lion", "test:99999999999"]
)
def test_a_test_picture_is_named_by_its_number_alone(text):
    assert picture.test_number("test:17") == 17
    assert picture.test_number(text) is None


@pytest.mark.parametrize(
    ("search", "wish"),
    [
        ("", Asked("photo:cat")),
        ("?picture=test:17", Asked("test:17")),
        ("?picture=photo:lion&crop=0.25", Asked("photo:lion", None, 0.25)),
        ("?crop=nan", Asked("photo:cat")),
        ("?crop=-3", Asked("photo:cat", None, 0.0)),
        ("?picture=" + "x" * 999, Asked("x" * permalink.LONGEST_NAME)),
    ],
)
def test_an_address_names_a_picture_and_its_crop_or_means_the_first_photo(search, wish):
    assert permalink.wish(search, ["photo:cat", "photo:lion"]) == wish
    assert permalink.wish("", []) is None


def test_the_query_is_read_and_cut():
    assert permalink.parse("?model=a%20b&layer=3&layer=4") == {"model": "a b", "layer": "4"}
    assert permalink.parse(None) == {}
    assert len(permalink.parse("?x=" + "y" * 10_000)["x"]) < permalink.LONGEST
