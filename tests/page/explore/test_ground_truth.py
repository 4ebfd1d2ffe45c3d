"""Ground truth images on the page: their model, their views and the comparison of maps."""

import numpy as np
import pytest

from tests.support.factories import TRUTH_FOLDER, make_context
from vitdemo.analyses.ground_truth import (
    MeanShare,
    ShareSummary,
    read_shares,
    share_on_patches,
)
from vitdemo.data.ground_truth import TASKS, make_ground_truth_image
from vitdemo.errors import ImageError, RunError
from vitdemo.page.bridge import group_models, list_new_models
from vitdemo.page.explore import predictions, side_by_side
from vitdemo.page.explore.class_attribution import details_payload, ground_truth, payload
from vitdemo.page.explore.perturbation import predictions as changed_predictions
from vitdemo.page.image_sources import (
    ImageRequest,
    list_truth_sources,
    load_example_images,
    load_truth_group,
    parse_truth_source,
    prepare_image,
)
from vitdemo.page.state_keys import SIDE_MODELS
from vitdemo.page.view_state import ViewState

SOURCE = "truth:one-mark:0"


@pytest.fixture(scope="module")
def context(shown_runs):
    return make_context(shown_runs, truth_root=TRUTH_FOLDER)


def make_truth_state(source: str = SOURCE, model: str = "one-mark") -> ViewState:
    names = {SIDE_MODELS.name: ["vit", "resnet"]}
    return ViewState(ImageRequest(source), model, names)


def test_sources_name_a_task_and_a_seed():
    assert parse_truth_source("truth:two-marks:17") == ("two-marks", 17)
    for source in ("truth:none:1", "truth:one-mark:", "truth:one-mark:12345", "photo:cat"):
        assert parse_truth_source(source) is None
    found = prepare_image(ImageRequest(SOURCE), None)
    truth = make_ground_truth_image("one-mark", 0)
    assert found.square.tobytes() == truth.image.tobytes()
    assert found.label == "cross" and found.size == (64, 64)
    with pytest.raises(ImageError):
        prepare_image(ImageRequest("truth:none:1"), None)


def test_offered_images_name_their_model_and_show_several_classes():
    group = load_truth_group()
    assert group["sources"] == list_truth_sources() and len(group["titles"]) == 6
    assert group["models"] == ["one-mark"] * 3 + ["two-marks"] * 3
    labels = {
        task: {make_ground_truth_image(*parse_truth_source(s)).label for s in group["sources"]}
        for task in TASKS
    }
    assert all(len(found) > 1 for found in labels.values())
    options = {"test_picture": None, "test_size": lambda: 0}
    assert load_example_images(**options, has_truth=False)["truth"] is None
    assert load_example_images(**options, has_truth=True)["truth"] == group


def test_ground_truth_models_are_only_in_the_menu_of_models(context):
    assert group_models(context)[-1] == ("Ground truth", ["one-mark", "two-marks"])
    models = list_new_models(context, None)
    assert models["groups"] == group_models(context) and "one-mark" not in models["others"]
    for runs in (
        context.list_runs()[0],
        context.trained_runs(),
        context.evaluated_runs(),
        context.classifier_runs(),
        context.explainable_runs(),
    ):
        assert not {run.name for run in runs} & {*TASKS}
    assert context.find_run("two-marks").classes == ("different", "same")
    without = make_context(*context.roots)
    assert [name for name, _ in group_models(without)] == ["Models"]
    with pytest.raises(RunError, match="no run 'one-mark'"):
        without.find_run("one-mark")


def test_a_ground_truth_image_has_only_predictions_of_its_model(context):
    photo = make_truth_state("photo:cat", "vit")
    for view in (predictions, changed_predictions):
        found = view.payload(context, make_truth_state())
        assert [each["run"] for each in found["models"]] == ["one-mark"]
        names = {each["run"] for each in view.payload(context, photo)["models"]}
        assert names == {"vit", "timm", "resnet"}
    (card,) = predictions.payload(context, make_truth_state())["models"]
    assert card["classes"][0] == card["label"] == "cross" and card["probabilities"][0] > 0.99
    found = side_by_side.payload(context, make_truth_state()).data
    assert [each["run"] for each in found["maps"]] == ["one-mark"] and not found["problems"]


def test_maps_of_a_ground_truth_image_are_compared_with_the_correct_map(context):
    data = payload(context, make_truth_state()).data
    truth = make_ground_truth_image("one-mark", 0)
    assert data["truth"]["patches"] == truth.patches.tolist()
    assert not data["has_slow"] and {"occlusion", "integrated_gradients"} <= {
        each["name"] for each in data["maps"]
    }
    for each in data["maps"]:
        share = 100 * share_on_patches(np.array(each["values"]), truth.patches)
        assert data["truth"]["shares"][each["name"]] == pytest.approx(share, abs=0.06)
    order = [data["truth"]["shares"][each["name"]] for each in data["maps"]]
    assert order == sorted(order, reverse=True)  # so that the largest shares are in view
    text, table, *_ = data["truth"]["blocks"]
    assert "shape of the red mark" in text["text"]
    shares = [row[1]["bar"] for row in table["rows"]]
    assert shares == sorted(shares, reverse=True) and len(shares) == len(data["maps"]) + 1
    (chance,) = (row for row in table["rows"] if row[0] == ground_truth.CHANCE)
    assert chance[1]["bar"] == 1 / 64


def test_other_images_and_models_have_no_correct_map(context):
    for source, model in ((SOURCE, "two-marks"), (SOURCE, "vit"), ("photo:cat", "one-mark")):
        assert payload(context, make_truth_state(source, model)).data["truth"] is None


def test_failures_are_stated_only_if_measured(context, monkeypatch):
    shares = {
        "relevance": MeanShare(0.5, 0.4, 0.6, 0.3, 0.5),
        "rollout": MeanShare(0.05, 0.02, 0.06, -0.01, 0.04),
        "attention": MeanShare(0.01, 0.0, 0.02, -0.04, -0.01),
    }
    for found, expected in (
        (shares, "The mean share of Attention rollout is not significantly above chance (95% "),
        ({"rollout": shares["rollout"]}, "The mean share of Attention rollout is not sign"),
        ({"relevance": shares["relevance"]}, None),
    ):
        summary = ShareSummary(200, 1.0, 0.25, 0.04, found)
        monkeypatch.setattr(ground_truth, "read_shares", lambda folder, summary=summary: summary)
        texts = [
            block["text"]
            for block in payload(context, make_truth_state()).data["truth"]["blocks"]
            if block["kind"] == "Text"
        ]
        assert texts[0].endswith(
            "On 200 other images, the model classifies 100.0% correctly, and 25.0% without the "
            "tokens of the marks (4 classes)."
        )
        assert len(texts) == 1 + bool(expected)
        assert expected is None or texts[1].startswith(expected)
        assert ("interval of the difference: −4.0 to −1.0 points" in texts[-1]) == (
            "attention" in found
        )


def test_captions_state_the_measured_failures_of_included_models(context):
    failed = {
        task: [name for name, own in summary.shares.items() if own.low_gain <= 0]
        for task in TASKS
        if (summary := read_shares(TRUTH_FOLDER / task))
    }
    assert failed == {"one-mark": [], "two-marks": ["grad_cam"]}
    own = read_shares(TRUTH_FOLDER / "two-marks").shares["grad_cam"]
    (bullets,) = (
        block["items"]
        for block in details_payload(context, make_truth_state("photo:cat", "vit"))
        if block["kind"] == "Bullets" and "Grad-CAM" in str(block)
    )
    stated = [text for text in bullets if "ground truth images" in text]
    assert len(stated) == 1 and stated[0].startswith("**Grad-CAM**")
    assert f"(two marks), {100 * own.mean:.1f}% of the positive weight" in stated[0]
