"""Payloads of the tabs Per-class metrics and Calibration, and the menus that they update."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.factories import CLASSES, make_context, make_evaluation, make_run
from vitdemo import runs
from vitdemo.errors import RunError
from vitdemo.metrics.calibration_report import compute_calibration_report
from vitdemo.page.bridge import describe_control
from vitdemo.page.components.run_choice import RunChoice, group_runs
from vitdemo.page.feature import ViewData
from vitdemo.page.kit import NO_EVALUATION_MESSAGE
from vitdemo.page.results.confusion_matrix import matrix_payload
from vitdemo.page.results.per_class_metrics import calibration, classes, curves, pair
from vitdemo.page.state_keys import OTHER_MODEL
from vitdemo.page.view_state import ViewState

NO_CHOICE = [""]  # state of the menu of classes before the user's first choice


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    """Context of "best" (5 cats wrong), "second" (all cats wrong), "other" (another test set)."""
    root = tmp_path_factory.mktemp("runs")
    make_run(root / "best")
    tested = make_evaluation(1)
    tested.probabilities[60:80] = np.eye(10, dtype=np.float32)[5]  # all cats predicted as dogs
    make_run(root / "second", tested=tested)
    make_run(root / "other", tested=replace(make_evaluation(2), fingerprint="1" * 16))
    return make_context(root)


@pytest.fixture
def diverged(tmp_path):
    """Run "bad", whose predictions are NaN."""
    run = make_run(tmp_path / "bad")
    probabilities = run.evaluation.probabilities * np.nan
    runs.write_evaluation(run.path, replace(run.evaluation, probabilities=probabilities))
    return make_context(tmp_path)


def make_state(model="best", other="", chosen=NO_CHOICE) -> ViewState:
    options = {"results.model": model, "results.other": other, "metrics.classes": chosen}
    return ViewState(None, "", options)


def read_menus(view: ViewData) -> dict:
    return {key: update["value"] for key, update in view.controls.items()}


def only_notice(blocks: list) -> str:
    (block,) = blocks
    assert block["kind"] == "Notice"
    return block["text"]


def read_accuracy(view: ViewData) -> str:
    (text,) = view.data["summary"]
    return text["text"]


def read_notice(view: ViewData) -> str:
    return only_notice(view.data["summary"] if isinstance(view.data, dict) else view.data)


def test_table_has_the_metrics_of_each_class(context):
    found = classes.payload(context, make_state())
    assert read_accuracy(found).startswith("best classifies **97.50%** of 200 test images correct")
    folded, about = found.data["details"]
    (table,) = folded["pieces"]
    assert "Margin of error (95%)" in about["pieces"][1]["text"]
    cat = table["rows"][CLASSES.index("cat")]
    assert cat[:2] == ["cat", "20"]
    assert cat[3]["value"] == 0.75  # recall
    assert [row[0] for row in table["feet"]] == ["Macro average", "Weighted average"]


def test_plot_shows_the_worst_class_first_and_both_models(context):
    plot = classes.payload(context, make_state(other="second")).data["plot"]
    assert plot["models"] == ["best", "second"]
    cat = plot["rows"][0]
    assert (cat["name"], cat["isTested"]) == ("cat", True)
    _, ((recall, low, high), other) = cat["marks"]
    assert low < recall == 0.75 < high and other[0] == 0
    assert "; recall 0.750 (" in cat["spoken"] and ", compared with 0.000 (" in cat["spoken"]
    assert plot["ticks"] == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]  # the recall of second is 0
    alone = classes.payload(context, make_state()).data["plot"]
    lowest = min(low for row in alone["rows"] for ((_, low, _),) in row["marks"])
    assert alone["ticks"][0] <= lowest < alone["ticks"][1]
    assert [len(marks) for marks in alone["rows"][0]["marks"]] == [1, 1]


@pytest.mark.parametrize(
    ("low", "expected"),
    [
        (0.962, [0.96, 0.97, 0.98, 0.99, 1]),
        (0.8, [0.8, 0.85, 0.9, 0.95, 1]),
        (1.0, [0.99, 1]),
        (0.0, [0, 0.2, 0.4, 0.6, 0.8, 1]),
    ],
)
def test_axis_begins_at_a_round_value_below_the_lowest(low, expected):
    assert classes.choose_ticks(low) == expected


@pytest.mark.parametrize(
    ("model", "other", "expected"),
    [
        ("second", "best", ("second", "best")),
        ("gone", "gone", ("best", "")),
        (None, ["second"], ("best", "")),
        ("best", "best", ("best", "")),
    ],
)
def test_missing_models_are_replaced_in_the_menus(context, model, other, expected):
    found = classes.payload(context, make_state(model, other))
    assert read_menus(found) == dict(zip(("results.model", "results.other"), expected, strict=True))
    assert read_accuracy(found).startswith(f"{expected[0]} classifies")
    groups = dict(found.controls["results.other"]["props"]["groups"])
    assert expected[0] not in groups["Models"]


def test_comparison_needs_two_models_with_the_same_images(context):
    title, *_ = pair.payload(context, make_state(other="second"))
    assert title["text"] == "best and second on the same images"
    assert pair.payload(context, make_state()) == []
    with pytest.raises(RunError, match="other"):
        pair.payload(context, make_state(other="other"))
    with pytest.raises(RunError, match="best and other were tested on different images"):
        matrix_payload(context, make_state(other="other"))


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (NO_CHOICE, ["cat"]),  # the lowest F1
        (["unicorn"], ["cat"]),
        (None, []),
        ([], []),
        (["ship", "unicorn", "dog"], ["ship", "dog"]),
        ([*CLASSES[::-1]], [*CLASSES[:3:-1]]),  # at most six
    ],
)
def test_curves_show_the_chosen_classes(context, chosen, expected):
    found = curves.payload(context, make_state("second", chosen=chosen))
    assert read_menus(found) == {"metrics.classes": expected}
    assert found.controls["metrics.classes"]["choices"] == [(name, name) for name in CLASSES]
    if not expected:
        assert only_notice(found.data) == "Choose a class above to see its curves."
        return
    legend, _, table, download, _ = found.data
    assert [name for name, _ in legend["groups"]] == expected
    assert [row[:2] for row in table["rows"]] == [[name, "second"] for name in expected]
    assert download["rows"][0][:5] == [expected[0], "second", "ROC", "0.00000", "0.00000"]


def test_curves_of_two_models_have_the_same_colour(context):
    found = curves.payload(context, make_state(other="second", chosen=["dog"]))
    ((_, entries),) = found.data[0]["groups"]
    assert [entry["label"] for entry in entries] == ["best", "second"]
    assert entries[0]["colour"] == entries[1]["colour"]
    assert [entry.get("dashed", False) for entry in entries] == [False, True]


def test_calibration_is_described_for_the_chosen_run(context):
    found = calibration.payload(context, make_state("second"))
    error = compute_calibration_report(context.find_run("second")).reliability.calibration_error
    sentence, _, folded, about = found
    assert f"its calibration error is **{100 * error:.2f} percentage" in sentence["text"]
    assert sentence["text"].startswith("second is **overconfident")
    assert folded["pieces"][0]["file"] == "second-calibration"
    assert f"Its calibration error is **{100 * error:.2f} perc" in about["pieces"][1]["text"]
    assert "python train.py evaluate" in about["pieces"][2]["text"]  # no validation predictions


@pytest.mark.parametrize(("chosen", "expected"), [("", "second"), ("best", "best")])
def test_results_show_the_model_of_explore(context, chosen, expected):
    state = ViewState(None, "second", {"results.model": chosen})
    found = classes.payload(context, state)
    groups = group_runs(context.evaluated_runs())
    menu = {"props": {"groups": groups, "warning": ""}, "value": expected}
    assert found.controls["results.model"] == menu
    assert calibration.payload(context, state)[0]["text"].startswith(f"{expected} ")


def test_page_without_evaluated_runs_shows_how_to_evaluate(tmp_path):
    context, state = make_context(tmp_path), make_state("")
    found = classes.payload(context, state)
    assert read_notice(found) == NO_EVALUATION_MESSAGE
    assert set(read_menus(found).values()) == {""}
    assert pair.payload(context, state) == curves.payload(context, state).data == []
    assert calibration.payload(context, state) == []


def test_diverged_run_is_reported_once_per_tab(diverged):
    state = make_state("bad")
    found = classes.payload(diverged, state)
    assert "The evaluation of 'bad' cannot be used: NaN" in read_notice(found)
    assert pair.payload(diverged, state) == curves.payload(diverged, state).data == []
    assert calibration.payload(diverged, state) == []


def test_empty_menu_of_runs_has_an_empty_text_as_its_initial_value(context):
    tested = group_runs(context.evaluated_runs())
    assert describe_control(OTHER_MODEL, RunChoice())["start"] == ""
    assert describe_control(OTHER_MODEL, RunChoice(tested, nobody="no other model"))["start"] == ""
    assert describe_control(OTHER_MODEL, RunChoice(tested))["start"] == "best"
