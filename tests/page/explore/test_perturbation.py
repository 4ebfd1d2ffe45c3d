"""Payloads of the section "Fool the model", compared with the library."""

import numpy as np
import pytest
import torch

from tests.support.factories import make_context, make_run
from vitdemo.analyses import perturbation
from vitdemo.analyses.class_attribution import choose_first_map
from vitdemo.data.perturb.changes import (
    MAX_SEED,
    PRESETS,
    ImageChanges,
    RemovedPatches,
    apply_changes,
)
from vitdemo.errors import RunError
from vitdemo.explain import attention, norms
from vitdemo.page.bridge import fill, load_square
from vitdemo.page.explore.perturbation import image, order, predictions, presets, search
from vitdemo.page.graph import get_values
from vitdemo.page.image_sources import ImageRequest
from vitdemo.page.view_state import ViewState

PHOTO = ImageRequest("photo:cat")


def make_state(model: str = "vit", **options) -> ViewState:
    return ViewState(PHOTO, model, options)


def parse(context, model: str = "vit", **options) -> ImageChanges:
    return image.parse_changes(context, make_state(model, **options))


def test_missing_values_are_neutral_and_invalid_values_are_clamped(shown):
    assert parse(shown) == ImageChanges()
    nothing = dict.fromkeys(("blur", "noise", "pieces", "seed", "removed", "patches"))
    assert parse(shown, **nothing) == ImageChanges()
    assert parse(shown, blur="3", noise=True, pieces=[4], patches="9", removed=7) == ImageChanges()
    changes = parse(shown, noise=1e9, jpeg=-4, rotate=-200, pieces=3, seed=-5)
    assert (changes.noise, changes.jpeg, changes.rotate) == (100, 1, -180)
    assert (changes.pieces, changes.seed) == (1, 0)
    assert parse(shown, seed=1e6).seed == MAX_SEED


def test_patches_are_removed_on_the_chosen_grid_only(shown):
    code = RemovedPatches((4, 4), (0, 9)).encode
    removed = RemovedPatches.decode(code)
    assert parse(shown, removed=code, patches="4").removed == removed
    assert parse(shown, removed=code, patches="8").removed == RemovedPatches((8, 8))
    assert parse(shown, removed=code, patches="own").removed == removed  # the grid of the model
    assert parse(shown, "resnet", removed=code, patches="own").removed == RemovedPatches((8, 8))
    with pytest.raises(RunError, match="no run 'nobody'"):
        parse(shown, "nobody", patches="own")


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_presets_are_parsed_from_their_view_state(shown, preset):
    assert parse(shown, **presets.encode_changes(preset.changes)) == preset.changes


def test_presets_show_the_original_and_the_changed_images(shown):
    found = presets.payload(shown, make_state())
    original, *others = found["presets"]
    assert [each["title"] for each in others] == [*PRESETS]
    assert parse(shown, **original["changes"]) == ImageChanges()
    side, width, _ = found["sheet"].pixels.shape
    copies = found["sheet"].pixels.reshape(side, 1 + len(PRESETS), width // (1 + len(PRESETS)), 3)
    unchanged = image.load_canvas(shown, make_state())
    assert side == unchanged.width  # not enlarged
    np.testing.assert_array_equal(copies[:, 0], np.asarray(unchanged))
    for i, preset in enumerate(PRESETS.values(), start=1):
        changed = np.asarray(apply_changes(unchanged, preset.changes))
        np.testing.assert_array_equal(copies[:, i], changed)


def test_image_has_all_patches_and_the_colour_of_removed_patches(shown):
    options = {"patches": "4", "brightness": 0.5}
    found = image.payload(shown, make_state(removed="4.4.ff", **options))
    changes = parse(shown, removed="4.4.ff", **options)
    _, changed = image.load_images(shown, make_state(), changes)
    canvas = image.load_canvas(shown, make_state())
    kept = np.asarray(apply_changes(canvas, ImageChanges(brightness=0.5)))
    assert np.array_equal(found["image"].pixels, kept)
    assert (found["grid"], found["pieces"]) == ([4, 4], 1)
    assert found["strengths"] == {"titles": ["Brightness"], "values": [0.5], "units": ["times"]}
    masked = np.asarray(changed)
    upper = len(masked) // 2
    assert (masked[:upper] == found["removed_colour"]).all()
    assert np.array_equal(masked[upper:], kept[upper:])


def test_predictions_without_changes_equal_the_predictions_of_explore(shown):
    """The canvas was resized twice: 85.6% in Explore, 85.5% in "Fool the model"."""
    state = make_state()
    found = predictions.payload(shown, state)["models"]
    square = load_square(shown, state.image)
    assert square.width > image.load_canvas(shown, state).width
    for each in found:
        own = np.sort(shown.predict(shown.find_run(each["run"]), square).probabilities)[::-1]
        assert each["now"] == pytest.approx(own[: len(each["now"])], abs=1e-6)


@pytest.mark.parametrize("source", ["mean", "rollout", "head", "norm", "norm-head"])
def test_order_is_that_of_the_map_in_attention(shown, source):
    trace = shown.trace_image(shown.find_run("vit"), load_square(shown, PHOTO))
    weights, products = trace.attention, shown.value_products(trace)
    rows = {  # (L, P): the row of the class token
        "mean": weights[:, :, 0, 1:].mean(1),
        "head": weights[:, 1, 0, 1:],
        "norm": norms.summed_head_norms(weights, products)[:, 0, 1:],
        "norm-head": norms.head_norms(weights, products)[:, 1, 0, 1:],
        "rollout": torch.stack(
            [attention.rollout(weights[: i + 1, None])[0, 0, 1:] for i in range(3)]
        ),
    }
    found = order.payload(shown, make_state(head=2, patches="own", norms=True))
    assert found["grid"] == list(trace.grid)
    ranked = torch.tensor(found["orders"][source])
    expected = rows[source].sort(dim=1, descending=True).values
    torch.testing.assert_close(rows[source].gather(1, ranked), expected)


def test_order_begins_with_the_first_map(shown):
    found = order.payload(shown, make_state())
    assert found["first"] == choose_first_map(shown, shown.find_run("vit"))[0]
    assert [*found["orders"]] == ["mean", "rollout", "head"]
    assert [sorted(each) for each in found["orders"]["mean"]] == 3 * [[*range(64)]]


def test_order_without_attention_is_that_of_grad_cam(shown):
    found = order.payload(shown, make_state("resnet", patches="4"))
    assert (found["first"], found["title"], found["grid"]) == ("grad_cam", "Grad-CAM", [4, 4])
    run, square = shown.find_run("resnet"), load_square(shown, PHOTO)
    _, values = perturbation.compute_ranked_map(shown, run, square)
    assert found["orders"] == {"grad_cam": perturbation.rank_patches(values[None], (4, 4)).tolist()}


def test_predictions_are_those_of_the_changed_image(shown):
    found = predictions.payload(shown, make_state("resnet", noise=90))
    assert (found["removed"], found["grid"]) == ("", [8, 8])
    square = load_square(shown, PHOTO)
    changed = apply_changes(perturbation.make_canvas(shown, square), ImageChanges(noise=90))
    assert len(found["models"]) == 3
    for model in found["models"]:
        run = shown.find_run(model["run"])
        before, after = (shown.predict(run, each).probabilities for each in (square, changed))
        indices = [run.classes.index(name) for name in model["classes"]]
        np.testing.assert_allclose(model["before"], before[indices], atol=1e-6)
        np.testing.assert_allclose(model["now"], after[indices], atol=1e-6)


def make_prediction_change(run, before, after):
    rows = np.zeros((2, 10))
    for row, values in zip(rows, (before, after), strict=True):
        row[list(values)] = list(values.values())
    return perturbation.PredictionChange(run, *rows)


def test_model_has_its_top_classes_before_and_after(shown):
    change = make_prediction_change(
        shown.find_run("vit"), {3: 0.6, 5: 0.3, 1: 0.1}, {5: 0.5, 8: 0.4, 3: 0.1}
    )
    assert predictions.describe_model(change) == {
        "run": "vit",
        "class_count": 10,
        "predicted": ["cat", "dog"],
        "classes": ["cat", "dog", "automobile", "ship"],
        "before": [0.6, 0.3, 0.1, 0.0],
        "now": [0.1, 0.5, 0.0, 0.4],
    }


def report_nothing(done: int, total: int, text: str) -> None:
    pass


@pytest.mark.parametrize("model", ["vit", "timm", "resnet"])
def test_search_finds_patches_without_which_the_prediction_changes(shown, model):
    state = make_state(model, patches="4", removed="4.4.1", blur=1)
    found = search.find_fewest(shown, state, report_nothing)
    assert (found["run"], found["patches"]) == (model, 16)
    changes = parse(shown, model, patches="4", removed=found["removed"], blur=1)
    assert len(changes.removed.cells) == found["count"]
    before, after = image.load_images(shown, make_state(), changes)
    run = shown.find_run(model)
    first, then = (shown.predict(run, each).probabilities for each in (before, after))
    assert found["target"] == run.classes[first.argmax()]
    assert found["is_met"] == (then.argmax() != first.argmax())
    assert found["probability"] == pytest.approx(then[first.argmax()], abs=1e-5)


def test_search_reports_its_passes_and_can_be_stopped(shown):
    steps = []

    def report(done: int, total: int, text: str) -> None:
        steps.append((done, total, text))
        if len(steps) == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        search.find_fewest(shown, make_state(noise=3, patches="4"), report)
    assert steps[0] == (1, 2000, "Searching") and steps[2][0] > steps[1][0]


@pytest.mark.parametrize("model", ["vit", "timm", "resnet"])
def test_the_loop_of_the_search_finds_the_same_patches(shown, model):
    """The steps that a browser repeats give the result of the task."""
    run, state = shown.find_run(model), make_state(model)
    (loop,) = search.make_loops(shown, run)
    expected = search.find_fewest(shown, state, report_nothing)
    canvas = image.load_canvas(shown, state)
    crops = [shown.prepare_input(run.preprocessing, load_square(shown, state.image))[0], canvas]
    crop, canvas = (torch.from_numpy(np.array(each)).permute(2, 0, 1) for each in crops)
    with torch.no_grad():
        found = loop.start.compute(shown, run, state, crop)
        while not (values := get_values(found)).get("is_finished"):
            found = loop.step.compute(shown, run, state, canvas, canvas, values)
    result = fill({}, found)
    assert result.pop("probability") == pytest.approx(expected.pop("probability"), abs=1e-3)
    assert result == expected


def test_search_refuses_models_whose_prediction_cannot_change(tmp_path):
    make_run(tmp_path / "one", classes=("cat",))
    context = make_context(tmp_path)
    with pytest.raises(RunError, match="'one' has only the class 'cat'"):
        search.find_fewest(context, make_state("one"), report_nothing)
