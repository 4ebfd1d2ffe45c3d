"""Payloads of the section "Inside the model": names, colours, numbers and conclusions."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.support.factories import (
    RESNET,
    make_context,
    make_run,
    write_noise_images,
)
from vitdemo.analyses.head_ablation import compute_head_effects, predict_without_heads
from vitdemo.analyses.weights import PatchFilters
from vitdemo.data.cifar10 import CLASSES as CIFAR10
from vitdemo.errors import ImageError, RunError, Stopped
from vitdemo.page import state_keys as keys
from vitdemo.page.bridge import fill, load_square
from vitdemo.page.explore.inside import (
    head_ablation,
    patch_embedding,
    patches,
    positions,
)
from vitdemo.page.explore.inside.layer_by_layer import lens
from vitdemo.page.explore.prediction_change import compare_predictions
from vitdemo.page.image_sources import ImageRequest
from vitdemo.page.view_state import ViewState

CAT = ImageRequest("photo:cat")


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    """AppContext of a ViT and a ResNet with 20 test images."""
    root = tmp_path_factory.mktemp("inside")
    run = make_run(root / "runs" / "vit")
    make_run(root / "runs" / "resnet", RESNET)
    counts = {f"{part}/{name}": 2 for part in ("train", "test") for name in run.classes}
    return make_context(root / "runs", data_root=write_noise_images(root / "data", counts))


def fake_run(classes, **options):
    return SimpleNamespace(name="vit", classes=tuple(classes), **options)


def random_probabilities(*shape, seed=0):
    values = np.random.default_rng(seed).random(shape)
    return values / values.sum(-1, keepdims=True)


def test_short_names_are_the_shortest_unique_prefixes():
    assert " ".join(lens.abbreviate_names(CIFAR10)) == "ai au bi ca de do fr ho sh tr"
    assert lens.abbreviate_names(["cart", "carp", "dog"]) == ["cart", "carp", "dog"]
    assert lens.abbreviate_names(["spider monkey", "spider web"]) == ["0", "1"]


def test_ten_classes_have_fixed_and_distinct_colours():
    assert lens.assign_class_colours(torch.arange(10)).tolist() == [*range(10)]
    distances = [
        sum(abs(int(a[i : i + 2], 16) - int(b[i : i + 2], 16)) for i in (1, 3, 5))
        for a, b in itertools.combinations(lens.CLASS_COLOURS, 2)
    ]
    assert len(distances) == 45 and min(distances) > 60


def test_most_predicted_classes_get_colours_and_strips():
    predicted = torch.tensor([7] * 9 + [300] * 6 + [*range(500, 515)])
    colours = lens.assign_class_colours(lens.count_predictions(predicted, 1000)).tolist()
    assert len(colours) == 1000 and colours.count(len(lens.CLASS_COLOURS) - 1) == 1000 - 9
    assert (colours[7], colours[300], colours[500]) == (0, 1, 2)
    predictions = torch.zeros(3, 100)  # classes of the last layer come first
    predictions[[0, 1, 2, 2], [40, 50, 60, 50]] = torch.tensor([0.9, 0.8, 0.7, 0.1])
    selected = lens.select_classes(predictions).tolist()
    assert len(selected) == 8 and selected[:2] == [60, 50] and 40 in selected
    assert lens.select_classes(predictions[:, :10]).tolist() == list(range(10))


@pytest.mark.parametrize("classes", [CIFAR10, [f"class {i}" for i in range(40)]])
def test_lens_payload_contains_every_layer_and_patch(classes):
    L, P, C = 2, 4, len(classes)
    predictions = random_probabilities(L + 1, C)
    patches = random_probabilities(L + 1, P, C, seed=1)
    tensors = map(torch.from_numpy, (predictions, patches))
    payload = fill({}, lens.describe_predictions(classes, *tensors))
    shown = [classes.index(name) for name in payload["classes"]]
    assert len(shown) == (10 if C == 10 else 8)
    np.testing.assert_allclose(payload["answers"], predictions[:, shown], atol=1e-6)
    names = np.array(payload["named"]["names"])
    assert len(names) == len(payload["named"]["colours"]) == len({*names})
    expected = np.array(classes)[patches.argmax(2)]
    assert (names[np.array(payload["predicted"])] == expected).all()
    np.testing.assert_allclose(payload["shares"], patches.max(2), atol=1e-6)


def test_heads_are_parsed_from_the_url_and_invalid_ones_ignored():
    assert head_ablation.parse_heads("1.2 2.3", 2, 3) == {(0, 1), (1, 2)}
    assert head_ablation.parse_heads("3.1 1.4 0.1 1.0 -1.1 1.1.1 <b> . ² 1.²", 2, 3) == frozenset()


def test_head_grid_contains_the_change_of_every_head(context):
    run, image = context.find_run("vit"), load_square(context, CAT)
    for mode, source in (("zero", None), ("mean", "20 test images")):
        effects = compute_head_effects(context, run, image, mode)
        payload = head_ablation.payload(context, ViewState(CAT, "vit", {"head_replacement": mode}))
        assert (payload["run"], payload["name"]) == ("vit", run.classes[effects.target])
        assert payload["mean_source"] == source
        np.testing.assert_allclose(payload["change"], effects.logit_change, atol=1e-6)
        np.testing.assert_allclose(payload["probability"], effects.probability_change, atol=1e-6)


def test_comparison_includes_the_new_prediction():
    before, after = torch.tensor([0.55, *[0.05] * 9]), torch.full((10,), 0.01)
    after[9] = 0.91
    found = fill({}, compare_predictions(CIFAR10, before, after, 5, 1))
    assert found["predicted"] == ["airplane", "truck"]
    assert [len(found[name]) for name in ("classes", "before", "now")] == [6, 6, 6]
    rows = list(zip(found["classes"], found["before"], found["now"], strict=True))
    assert (rows[0], rows[-1]) == (("airplane", 0.55, 0.01), ("truck", 0.05, 0.91))
    found = fill({}, compare_predictions(CIFAR10, before, before, 5, 1))
    assert found["predicted"] == ["airplane"] * 2
    assert [len(found[name]) for name in ("classes", "before", "now")] == [5, 5, 5]


def test_comparison_follows_the_heads_in_the_state(context):
    state = ViewState(CAT, "vit", {"heads_off": "9.9 2.1", "head_replacement": "zero"})
    found = head_ablation.comparison_payload(context, state)
    assert found["heads"] == [[2, 1]]
    run = context.find_run("vit")
    image = load_square(context, CAT)
    without = predict_without_heads(context, run, image, {(1, 0)}, "zero")
    for name, after in zip(found["classes"], found["now"], strict=True):
        assert after == pytest.approx(without[run.classes.index(name)], abs=1e-6)
    found = head_ablation.comparison_payload(context, ViewState(CAT, "vit", {"heads_off": 3}))
    assert found["heads"] == []
    heads = [f"{layer}.1" for layer in range(1, 300)]  # longer than a name
    text = " ".join([*heads, "3.2"])
    assert ViewState(None, "vit", {"heads_off": text})[keys.HEADS_OFF] == text


def test_accuracy_task_reports_its_progress_and_can_be_cancelled(context):
    state = ViewState(None, "vit", {"heads_off": "1.1"})
    reports = []
    found = head_ablation.measure_accuracy(context, state, lambda *report: reports.append(report))
    assert (found["run"], found["images"], found["heads"]) == ("vit", 20, [[1, 1]])
    before, after = found["accuracies"]
    assert found["change"] == pytest.approx(after - before)
    assert found["interval"][0] <= found["change"] <= found["interval"][1]
    assert [report[:2] for report in reports] == [(20, 40), (40, 40), (40, 40)]

    def cancel(*_):
        raise Stopped

    with pytest.raises(Stopped):
        head_ablation.measure_accuracy(context, state, cancel)
    for model, off, message in (
        ("vit", "", "at least one head"),
        ("resnet", "1.1", "no attention"),
    ):
        with pytest.raises(RunError, match=message):
            head_ablation.measure_accuracy(
                context, ViewState(None, model, {"heads_off": off}), cancel
            )


def test_limit_of_the_colour_scale_excludes_equal_patches():
    similarity = np.array([[1.0, -0.5], [-0.5, 1.0]], np.float32)
    assert positions.find_largest_cosine(similarity) == 0.5
    assert positions.find_largest_cosine(np.ones((1, 1))) == 1


def test_filter_tiles_have_numbers_and_channels_last():
    colours = np.zeros((2, 3, 2, 2))
    colours[1, 0, 1, 0] = 1.0
    kernels = PatchFilters(9, colours, np.array([2.5, 1.0]), colours[:1], np.array([0.25]))
    found = patch_embedding.describe_filters(kernels, keys.LARGEST_FILTERS)
    assert (found["count"], found["side"], found["numbers"]) == (9, 2, [2.5, 1.0])
    assert found["sheet"].pixels[1, 2].tolist() == [255, 0, 0]  # lower left of the second tile
    found = patch_embedding.describe_filters(kernels, keys.PRINCIPAL_COMPONENTS)
    assert found["numbers"] == [0.25]


def test_patches_are_those_of_the_model(context):
    run, image = context.find_run("vit"), load_square(context, CAT)
    expected = patches.patch_blocks(context, run, image)
    found = patches.payload(context, ViewState(CAT, "vit"))
    assert [block["kind"] for block in found] == ["Heading", "Text", "ImageRow", "Details"]
    assert found[1]["text"] == expected[1].text
    assert len(found[2]["items"]) == 1 + 3 + patches.COMPONENT_COUNT
    with pytest.raises(ImageError, match="No image is chosen"):
        patches.payload(context, ViewState(None, "vit"))
    with pytest.raises(RunError, match="has no patches"):
        patches.payload(context, ViewState(CAT, "resnet"))


def test_patches_tile_the_image():
    image = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    tiles = patches.split_patches(image, (4, 4))
    assert tiles.shape == (4, 4, 4, 4, 3)
    assert np.array_equal(tiles[2, 1], image[8:12, 4:8])
