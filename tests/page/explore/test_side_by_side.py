"""Side by side: one image, several models at the same relative depth, each with its own map."""

import numpy as np
import pytest

from tests.support.factories import CONVNET, RESNET, TIMM, VIT, make_context, make_run, noise
from vitdemo.errors import RunError
from vitdemo.explain.attributions import attribute
from vitdemo.page.explore.side_by_side import (
    compute_side_by_side,
    describe_map,
    layer_at_depth,
    select_one_per_family,
)

IMAGE = noise()


@pytest.mark.parametrize(
    ("depth", "layers", "layer"),
    [(0, 12, 1), (0.5, 12, 6), (0.5, 6, 3), (1, 6, 6), (0.05, 2, 1), (0.95, 3, 3)],
)
def test_relative_depth_maps_to_a_layer(depth, layers, layer):
    assert layer_at_depth(depth, layers) == layer


def test_default_selection_has_one_run_of_each_family(tmp_path):
    for name, spec in {"a": CONVNET, "b": RESNET, "c": VIT, "d": VIT, "e": TIMM}.items():
        make_run(tmp_path / name, spec)
    context = make_context(tmp_path)
    assert [run.name for run in select_one_per_family(context.trained_runs())] == ["c", "e", "a"]
    assert select_one_per_family([]) == []


def test_each_model_gets_its_own_map(shown):
    names = ["vit", "timm", "resnet"]
    maps, problems = compute_side_by_side(shown, names, IMAGE, depth=0.5, kind="attention")
    assert problems == []
    described = [describe_map(each) for each in maps]
    layers = [(each["method"], each["layer"], each["layers"]) for each in described]
    assert layers == [("attention", 2, 3), ("attention", 1, 2), ("grad_cam", None, None)]
    trace = shown.trace_image(shown.find_run("vit"), IMAGE)
    assert np.allclose(described[0]["values"], trace.head_maps(2).mean(0))
    assert (described[0]["run"], described[0]["reader"]) == ("vit", "the class token")
    resnet = shown.predict(shown.find_run("resnet"), IMAGE)
    assert described[2]["class"] == resnet.run.classes[int(resnet.probabilities.argmax())]
    assert described[2]["classes"][0] == described[2]["class"]
    assert described[2]["probabilities"][0] == pytest.approx(resnet.probabilities.max(), abs=1e-6)


@pytest.mark.parametrize("kind", ["relevance", "attnlrp"])
def test_map_is_computed_for_the_requested_class(shown, kind):
    options = {"depth": 1, "kind": kind}
    (found,), _ = compute_side_by_side(shown, ["vit"], IMAGE, **options, target="dog")
    run = shown.find_run("vit")
    _, pixels = shown.prepare_input(run.preprocessing, IMAGE)
    expected = attribute(kind, shown.load_model(run), pixels, run.classes.index("dog"))[0]
    assert np.allclose(found.values, expected, atol=1e-6)
    assert (found.method, found.class_name) == (kind, "dog")
    assert describe_map(found)["signed"] == (kind == "attnlrp")
    maps, problems = compute_side_by_side(shown, ["vit"], IMAGE, **options, target="unicorn")
    assert (maps, problems) == ([], ["'vit' has no class 'unicorn'. Choose another class."])


def test_unavailable_model_is_reported_and_the_others_shown(shown):
    maps, problems = compute_side_by_side(shown, ["nobody", "vit"], IMAGE, depth=1, kind="rollout")
    assert [each.prediction.run.name for each in maps] == ["vit"]
    assert "no run 'nobody'" in problems[0]
    with pytest.raises(RunError, match="choose one of attention, rollout, relevance"):
        compute_side_by_side(shown, ["vit"], IMAGE, depth=1, kind="magic")
