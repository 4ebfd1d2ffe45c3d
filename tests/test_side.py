"""Several models on one picture: each at the same share of its depth, each its own map."""

import numpy as np
import pytest

from tests.making import CONVNET, RESNET, TIMM, VIT, bench, make_run, noise
from vitdemo.attributions import attribute
from vitdemo.errors import RunError
from vitdemo.page.look.side import layer_at, one_of_each_family, side_by_side

IMAGE = noise()


@pytest.mark.parametrize(
    ("depth", "layers", "layer"),
    [(0, 12, 1), (0.5, 12, 6), (0.5, 6, 3), (1, 6, 6), (0.05, 2, 1), (0.95, 3, 3)],
)
def test_the_same_share_of_the_depth(depth, layers, layer):
    assert layer_at(depth, layers) == layer


def test_one_run_of_each_family_is_chosen_first_and_convolutional_ones_are_one(tmp_path):
    for name, spec in {"a": CONVNET, "b": RESNET, "c": VIT, "d": VIT, "e": TIMM}.items():
        make_run(tmp_path / name, spec)
    found = bench(tmp_path)
    assert [run.name for run in one_of_each_family(found.trained_runs())] == ["c", "e", "a"]
    assert one_of_each_family([]) == []


def test_each_model_gets_its_own_map(shown):
    names = ["vit", "timm", "resnet"]
    panels, problems = side_by_side(shown, names, IMAGE, depth=0.5, kind="attention")
    assert problems == []
    titles = [panel.title for panel in panels]
    assert titles[:2] == ["Attention, layer 2 of 3", "Attention, layer 1 of 2"]
    look = shown.look(shown.run("vit"), IMAGE)
    assert np.allclose(panels[0].values, look.head_maps(2).mean(0))
    assert titles[2].startswith("Grad-CAM for ")


def test_the_class_of_relevance_is_the_one_that_is_asked_for(shown):
    asked = {"depth": 1, "kind": "relevance"}
    panels, _ = side_by_side(shown, ["vit"], IMAGE, **asked, target="dog")
    run = shown.run("vit")
    _, pixels = shown.input(run.preprocessing, IMAGE)
    wanted = attribute("relevance", shown.model(run), pixels, run.classes.index("dog"))[0]
    assert np.allclose(panels[0].values, wanted, atol=1e-6)
    assert panels[0].title == "Relevance for dog"
    panels, problems = side_by_side(shown, ["vit"], IMAGE, **asked, target="unicorn")
    assert (panels, problems) == ([], ["'vit' has no class 'unicorn'. Choose another class."])


def test_what_cannot_be_shown_is_told_and_the_others_are_there(shown):
    panels, problems = side_by_side(shown, ["nobody", "vit"], IMAGE, depth=1, kind="rollout")
    assert [panel.head for panel in panels] == ["vit"]
    assert "no run 'nobody'" in problems[0]
    with pytest.raises(RunError, match="choose one of attention, rollout, relevance"):
        side_by_side(shown, ["vit"], IMAGE, depth=1, kind="magic")
