"""All maps of a picture in one file: what the README inside says is what is there."""

import re

import numpy as np
import pytest
import torch

from tests.making import noise
from vitdemo import attention
from vitdemo.errors import RunError
from vitdemo.export import MEANING, README, all_maps, save_maps


def test_every_map_is_that_of_the_model(shown):
    run, image = shown.run("vit"), noise()
    maps = all_maps(shown, run, image)
    _, pixels = shown.input(run.preprocessing, image)
    with torch.no_grad():
        trace = attention.trace(shown.model(run), pixels)
    assert np.allclose(maps["attention"], trace.attention[:, 0], atol=1e-6)
    assert np.allclose(maps["heads"][2, 1], trace.attention[2, 0, 1, 0, 1:].reshape(4, 4))
    whole = attention.rollout(trace.attention)[0, 0, 1:].reshape(4, 4)
    assert np.allclose(maps["rollout"][-1], whole, atol=1e-6)
    target = int(trace.logits.argmax())
    wanted = attention.relevance(shown.model(run), pixels, target)[0, 0, 1:].reshape(4, 4)
    assert np.allclose(maps["relevance"], wanted, atol=1e-6)
    assert maps["class_index"] == target
    assert maps["probabilities"].sum() == pytest.approx(1, abs=1e-5)


def test_the_readme_states_the_shapes_that_are_there(shown, tmp_path):
    with np.load(save_maps(shown, "vit", noise(), tmp_path)) as maps:
        words = maps[README].decode()
        named = dict(re.findall(r"maps\['(\w+)'\].*: (\(.*\))$", words, re.MULTILINE))
        assert set(named) == set(MEANING) == set(maps.files) - {README}
        assert {name: str(maps[name].shape) for name in named} == named
    assert "the model 'vit'" in words


def test_a_resnet_is_refused_in_a_sentence(shown, tmp_path):
    with pytest.raises(RunError, match="is not a Vision Transformer"):
        save_maps(shown, "resnet", noise(), tmp_path)
