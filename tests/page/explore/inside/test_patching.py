"""Payloads of the part "Activation patching": images, predictions, maps, and old links."""

import numpy as np
import pytest

from tests.support.factories import (
    RESNET,
    VIT,
    make_context,
    make_run,
    timm_spec,
    write_noise_images,
)
from vitdemo import runs
from vitdemo.analyses import activation_patching
from vitdemo.analyses.activation_patching import compute_patching, load_image_pair, patch_image
from vitdemo.errors import RunError, Stopped
from vitdemo.page import bridge
from vitdemo.page.bridge import load_square
from vitdemo.page.explore.inside import patching
from vitdemo.page.image_sources import USER_PHOTO, ImageRequest
from vitdemo.page.view_state import ViewState

CAT = ImageRequest("photo:cat")
REGISTERS = timm_spec(reg_tokens=4, no_embed_class=True)


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    """AppContext of two ViTs, a ResNet and a broken ViT, with test images."""
    root = tmp_path_factory.mktemp("patching")
    run = make_run(root / "runs" / "vit", VIT)
    make_run(root / "runs" / "registers", REGISTERS)
    make_run(root / "runs" / "resnet", RESNET)
    make_run(root / "runs" / "broken", VIT)
    weights = runs.load_model(runs.read_run(root / "runs" / "broken")).state_dict()
    weights["head.bias"][:] = float("nan")
    runs.write_weights(root / "runs" / "broken", weights)
    counts = {f"{part}/{name}": 2 for part in ("train", "test") for name in run.classes}
    return make_context(root / "runs", data_root=write_noise_images(root / "data", counts))


def make_state(model="vit", image=CAT, second="photo:bus", **options):
    values = {f"patching.{name}": value for name, value in options.items()}
    return ViewState(image, model, {"patching.image": second, **values})


def load_photos(context, model="vit"):
    images = [load_square(context, ImageRequest(f"photo:{name}")) for name in ("cat", "bus")]
    return load_image_pair(context, context.find_run(model), *images)


def test_images_are_described_with_their_predictions(context):
    found = patching.images_payload(context, make_state("registers"))
    pair = load_photos(context, "registers")
    names = [pair.run.classes[i] for i in pair.predicted]
    assert (found["run"], found["layers"], found["grid"]) == ("registers", 2, [4, 4])
    assert found["special"] == ["class token", *(f"register {i}" for i in range(1, 5))]
    assert (found["source"], found["predicted"]) == ("photo:bus", names)
    expected = [each.max() for each in pair.probabilities]
    np.testing.assert_allclose(found["probabilities"], expected, atol=1e-4)
    assert found["classes"] == [pair.run.classes[i] for i in pair.classes]
    for file, trace in zip(found["images"], (pair.first, pair.second), strict=True):
        np.testing.assert_array_equal(file.pixels, trace.input_image)


@pytest.mark.parametrize("second", ["", "photo:none", "own", "test:999", "set:0f3a:1", 7])
def test_image_2_is_another_photo_by_default_and_for_an_old_link(context, second):
    found = patching.images_payload(context, make_state(second=second))
    assert found["source"] != "photo:cat"
    assert found["source"] in [source for source, _ in found["options"]]
    predictions = [
        context.predict(context.find_run("vit"), load_square(context, ImageRequest(source)))
        for source, _ in found["options"]
    ]
    names = {context.find_run("vit").classes[each.probabilities.argmax()] for each in predictions}
    assert len(names) == 1 or found["predicted"][0] != found["predicted"][1]


def test_test_images_and_image_1_can_be_image_2(context):
    found = patching.images_payload(context, make_state(second="test:3"))
    assert found["source"] == "test:3" and found["options"][-1] == ["test:3", "test image 3"]
    state = make_state(image=ImageRequest("test:4"), second="photo:bus")
    options = patching.images_payload(context, state)["options"]
    assert options[-1] == ["test:4", "test image 4 (image 1)"] and options[0] == [
        "photo:cat",
        "cat",
    ]
    state = make_state(image=ImageRequest("test:4"), second="test:4")
    same = patching.images_payload(context, state)
    assert not same["has_change"] and same["predicted"][0] == same["predicted"][1]


def test_own_photos_are_image_1_only(context, tmp_path):
    load_square(context, CAT).save(tmp_path / "own.png")
    own = ImageRequest(USER_PHOTO, str(tmp_path / "own.png"))
    found = patching.images_payload(context, make_state(image=own))
    assert found["options"][0] == ["photo:cat", "cat"]
    assert USER_PHOTO not in [source for source, _ in found["options"]]
    patched = patching.prediction_payload(context, make_state(image=own, tokens="t0", layer=2))
    assert patched["tokens"] == {"special": ["class token"], "patches": 0, "all": 16}


def test_maps_are_computed_by_a_task_and_then_cached(context):
    state, reports = make_state("registers"), []
    before = patching.maps_payload(context, state)
    assert before["result"] is None and before["is_quick"]
    patching.compute_maps(context, state, lambda *report: reports.append(report))
    found, pair = patching.maps_payload(context, state), load_photos(context, "registers")
    expected = compute_patching(context, pair)
    np.testing.assert_allclose(found["result"]["maps"], expected.maps, atol=1e-4)
    np.testing.assert_allclose(found["result"]["random"], expected.random.mean(1), atol=1e-4)
    curves = found["result"]["curves"]
    assert [*curves] == ["class token", "special tokens", "patches"]
    for name, values in curves.items():
        np.testing.assert_allclose(values, expected.curves[name], atol=1e-4)
    dones, totals, texts = zip(*reports, strict=True)
    assert dones[-1] == totals[0] and len(set(totals)) == 1 and {*texts} == {"Replacing tokens"}
    assert [*dones] == sorted({*dones})


def test_a_cancelled_task_leaves_no_maps(context):
    state = make_state(second="photo:tower")

    def cancel(*_):
        raise Stopped

    with pytest.raises(Stopped):
        patching.compute_maps(context, state, cancel)
    assert patching.maps_payload(context, state)["result"] is None


def test_large_models_wait_for_the_user(context, monkeypatch):
    monkeypatch.setattr(bridge, "MAX_QUICK_PARAMETERS", 10)
    assert not patching.maps_payload(context, make_state())["is_quick"]


def test_prediction_follows_layer_and_tokens(context):
    found = patching.prediction_payload(context, make_state(layer=2, tokens="t0 1,2 4,4"))
    pair = load_photos(context)
    expected = patch_image(context, pair, 2, [0, 2, 16])
    assert found["tokens"] == {"special": ["class token"], "patches": 2, "all": 16}
    assert found["layer"] == 2 and found["share"] == pytest.approx(expected.share, abs=1e-4)
    mean, low, high = found["random"]
    assert low <= mean <= high and mean == pytest.approx(np.mean(expected.random), abs=1e-4)
    assert found["predicted"][1] == pair.run.classes[int(expected.probabilities.argmax())]
    shown = found["classes"]
    assert {*found["predicted"], *(pair.run.classes[i] for i in pair.classes)} <= {*shown}
    for name, before, after in zip(shown, found["before"], found["now"], strict=True):
        c = pair.run.classes.index(name)
        assert before == pytest.approx(pair.probabilities[0][c], abs=1e-6)
        assert after == pytest.approx(expected.probabilities[c], abs=1e-6)


def test_all_tokens_give_image_2(context):
    pair = load_photos(context)
    found = patching.prediction_payload(context, make_state(layer=1, tokens="t0 patches"))
    assert found["share"] == pytest.approx(1, abs=1e-3) and found["random"] is None
    assert found["predicted"] == [pair.run.classes[i] for i in pair.predicted]


@pytest.mark.parametrize(
    ("layer", "kept"), [(0, 0), (3, 3), (99, 3), (-4, 0), ("x", 0), (1.6, 2), (None, 0)]
)
def test_layers_that_do_not_exist_are_replaced(context, layer, kept):
    found = patching.prediction_payload(context, make_state(layer=layer, tokens="2,2"))
    assert found["layer"] == kept


def test_without_tokens_the_prediction_is_that_of_image_1(context):
    for tokens in ("", "t1 5,1 0,1 1,0 <b> patch 1,1,1 ²,1", 7):
        found = patching.prediction_payload(context, make_state(layer=2, tokens=tokens))
        assert found["tokens"] == {"special": [], "patches": 0, "all": 16}
        assert found["share"] == pytest.approx(0, abs=1e-3) and found["random"] is None
        assert found["before"] == pytest.approx(found["now"], abs=1e-5)


def test_tokens_are_parsed_by_row_and_column():
    assert patching.parse_tokens("t0 t1 1,1 2,3", 2, (2, 3)) == [0, 1, 2, 7]
    assert patching.parse_tokens("patches t0", 1, (2, 3)) == [*range(7)]
    assert patching.parse_tokens("1,1 1,1", 0, (2, 3)) == [0]


@pytest.mark.parametrize(
    ("model", "message"),
    [("resnet", "has no attention"), ("broken", "predicts NaN"), ("none", "There is no run")],
)
def test_unsuitable_models_are_named_by_all_views(context, model, message):
    for payload in patching.FEATURE.payloads.values():
        with pytest.raises(RunError, match=message):
            payload(context, make_state(model))


def test_equal_predictions_are_compared_with_another_class(context, monkeypatch):
    monkeypatch.setattr(activation_patching, "choose_classes", lambda first, second: (2, 5))
    found = patching.images_payload(context, make_state())
    run = context.find_run("vit")
    assert found["classes"] == [run.classes[2], run.classes[5]]
    shown = patching.prediction_payload(context, make_state(tokens="1,1"))["classes"]
    assert {run.classes[2], run.classes[5]} <= {*shown}
