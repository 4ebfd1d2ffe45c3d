"""The Errors tab: counts of the kinds, filters of the view state, pairs of classes."""

import pytest

from tests.support.factories import make_context
from vitdemo.errors import RunError
from vitdemo.page.results.confusion_matrix import matrix_payload
from vitdemo.page.results.errors import KIND_TEXTS, images_payload, kinds_payload, pairs_payload
from vitdemo.page.view_state import ViewState

# first: 60 10 0 / 5 25 0 / 4 6 0; rows are the true classes <b>ant, bee and fly


def make_state(**options) -> ViewState:
    return ViewState(None, "", {f"errors.{name}": value for name, value in options.items()})


def count_by_kind(view) -> dict[str, int]:
    return {chip["pick"]: chip["count"] for chip in view.data["chips"]}


def test_kinds_have_counts_that_pass_the_other_filters(tested):
    found = kinds_payload(tested, make_state(model="first"))
    counts = count_by_kind(found)
    assert list(counts) == list(KIND_TEXTS)
    assert (counts["errors"], counts["right"], counts["all"]) == (25, 85, 110)
    assert found.data["only"] == ""
    assert found.data["chips"][0]["text"] == "first predicted the wrong class."
    both = make_state(model="first", true="bee", predicted="<b>ant", both=True, low=0, high=100)
    found = kinds_payload(tested, both)
    assert count_by_kind(found)["errors"] == 15
    assert found.data["only"] == "bee ↔ <b>ant"


def test_invalid_values_are_replaced_by_defaults(tested):
    wanted = kinds_payload(tested, make_state(model="first"))
    invalid = {
        "model": "gone",
        "true": "<i>",
        "predicted": 1,
        "both": "x",
        "low": "nan",
        "high": 900,
    }
    found = kinds_payload(tested, make_state(**invalid))
    assert (found.data, found.controls) == (wanted.data, wanted.controls)
    assert found.controls["results.model"]["value"] == "first"
    assert found.controls["errors.true"] == {
        "choices": [("any class", ""), ("<b>ant", "<b>ant"), ("bee", "bee"), ("fly", "fly")],
        "value": "",
    }
    found = images_payload(tested, make_state(kind="no", order="no", page="x", **invalid))
    assert (found["count"], found["start"]) == (25, 0)


def test_images_pass_all_filters(tested):
    state = make_state(model="first", kind="all", true="bee", order="data_set", page=1)
    found = images_payload(tested, state)
    assert found["count"] == 30
    assert {image["true"] for image in found["pictures"]} == {"bee"}
    numbers = [image["number"] for image in found["pictures"]]
    assert numbers == sorted(numbers)


def test_pairs_are_the_most_confused_classes(tested):
    chips = pairs_payload(tested, make_state(model="first"))["chips"]
    assert [(chip["classes"], chip["count"]) for chip in chips] == [
        (["<b>ant", "bee"], 15),
        (["bee", "fly"], 6),
        (["<b>ant", "fly"], 4),
    ]


@pytest.mark.parametrize("payload", [kinds_payload, images_payload])
def test_invalid_confidence_range_is_reported(tested, payload):
    with pytest.raises(RunError, match=r"range 0\.5 to 0\.4"):
        payload(tested, make_state(model="first", low=50, high=40))


@pytest.mark.parametrize("payload", [kinds_payload, matrix_payload])
def test_page_without_evaluated_runs_reports_this(tmp_path, payload):
    with pytest.raises(RunError, match="No run has been evaluated yet"):
        payload(make_context(tmp_path), make_state())
